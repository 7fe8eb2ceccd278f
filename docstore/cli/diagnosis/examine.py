"""All findings on a group."""

from collections.abc import Iterator

from docstore.cli.diagnosis import of_members, of_nodes, of_slots, of_streams
from docstore.cli.diagnosis.finding import RISK, Finding, in_order
from docstore.cli.diagnosis.seen import Seen


def examine(seen: Seen) -> list[Finding]:
    """Return the findings, sorted by grade."""
    found = [each for part in (of_members, of_slots, of_nodes, of_streams)
             for each in part.findings(seen)]  # fmt: skip
    return in_order([*found, *_of_factories(seen)])


def _of_factories(seen: Seen) -> Iterator[Finding]:
    for declaration in seen.factories:
        for warning in declaration.get("warnings", ()):
            yield Finding(
                RISK, str(declaration["path"]),
                f"`{warning['member']}` of its declaration changes nothing: {warning['detail']}",
                "remove it from the declaration, or do not rely on it",
                "http.md#settings-without-effect",
            )  # fmt: skip
