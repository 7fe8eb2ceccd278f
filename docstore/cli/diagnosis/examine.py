"""All findings on a group, from what was seen of it."""

from docstore.cli.diagnosis import of_factories, of_members, of_nodes, of_slots, of_streams
from docstore.cli.diagnosis.finding import Finding, in_order
from docstore.cli.diagnosis.seen import Seen

PARTS = (of_members, of_slots, of_nodes, of_streams, of_factories)


def examine(seen: Seen) -> list[Finding]:
    """Return what is wrong, then what will be."""
    return in_order(finding for part in PARTS for finding in part.findings(seen))
