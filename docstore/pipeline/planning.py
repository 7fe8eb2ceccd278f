"""Which task reads what: slots that have the same copies go together, in few large shares."""

from collections.abc import Mapping, Sequence
from typing import Any

from docstore.pipeline.options import READ_FROM, Options
from docstore.pipeline.scanning import ScanNode, ScanShare, Span, preferred

ROWS_PER_SHARE = 250_000
SHARES_MIN = 2


def shares(
    layout: Mapping[str, Any], spans: Sequence[Span], request: Mapping[str, Any], options: Options,
    *, is_log: bool,
) -> list[ScanShare]:  # fmt: skip
    """Return the shares that together are `spans`; none for none."""
    nodes = [ScanNode(each["url"], each["zone"]) for each in layout["nodes"]]
    groups: dict[tuple[int, ...], list[Span]] = {}
    for span in spans:
        groups.setdefault(tuple(sorted(layout["replicas"][span[0]])), []).append(span)
    per_share = _slots_per_share(spans, options)
    read_from = options.choice("readFrom", READ_FROM)
    found: list[ScanShare] = []
    for holders, held in sorted(groups.items()):
        for first in range(0, len(held), per_share):
            part = tuple(held[first : first + per_share])
            owners = [layout["owners"][span[0]] for span in part]
            owner = max(set(owners), key=owners.count)
            copies = preferred(
                [nodes[number] for number in holders if nodes[number].url],
                nodes[owner] if owner >= 0 else None,
                read_from, len(found), options.text("zone"),
            )  # fmt: skip
            found.append(
                ScanShare(
                    part,
                    copies,
                    dict(request),
                    is_log,
                    tuple(options.urls),
                    options.number("retries", 5),
                    options.timeout_s(30_000),
                )
            )
    return found


def _slots_per_share(spans: Sequence[Span], options: Options) -> int:
    """Return how many slots make a share, by the rows that their logs have at the most."""
    rows = sum(span[-1] - (span[1] if len(span) == 3 else 0) for span in spans)
    wanted = max(SHARES_MIN, -(-rows // ROWS_PER_SHARE), options.number("minPartitions", 0))
    wanted = options.number("partitions", 0) or wanted
    return max(1, -(-len(spans) // wanted))
