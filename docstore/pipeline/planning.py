"""Plan a scan: slots with the same replicas go together, in few large shares."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from docstore.pipeline.options import READ_FROM, Options
from docstore.pipeline.scanning import ScanNode, ScanShare, Span, batches, preferred

ROWS_PER_SHARE = 250_000
SHARES_MIN = 2


def shares(
    layout: Mapping[str, Any], spans: Sequence[Span], request: Mapping[str, Any], options: Options,
    *, is_log: bool,
) -> list[ScanShare]:  # fmt: skip
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
            share = ScanShare(
                part, copies, dict(request), is_log, tuple(options.urls),
                options.number("retries", 5), options.timeout_s(30_000),
            )  # fmt: skip
            found.append(share)
    return found


def snapshot_batches(
    plan: Mapping[str, Any], slots: Iterable[int], request: Mapping[str, Any], urls: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some slots at the cut of a plan. Raises GroupError, OSError."""
    ends = plan["ends"]
    spans = [(slot, ends[slot]) for slot in slots if ends[slot]]
    options = Options({"url": ",".join(urls), "partitions": "1"})
    for share in shares(plan, spans, request, options, is_log=False):
        yield from batches(share)


def _slots_per_share(spans: Sequence[Span], options: Options) -> int:
    """Return the number of slots in a share, from the greatest number of rows in their logs."""
    rows = sum(span[-1] - (span[1] if len(span) == 3 else 0) for span in spans)
    wanted = max(SHARES_MIN, -(-rows // ROWS_PER_SHARE), options.number("minPartitions", 0))
    wanted = options.number("partitions", 0) or wanted
    return max(1, -(-len(spans) // wanted))


def fair(lags: Sequence[int], rows: int | None) -> list[int]:
    """Return the number of rows to take from each log, in proportion to its lag.

    rows: the most rows in all, None for no limit.
    """
    total = sum(lags)
    if rows is None or total <= rows:
        return list(lags)
    taken = [lag * rows // total for lag in lags]
    # Rounding leaves a few rows, which go to the logs that lost most by it.
    by_rest = sorted(range(len(lags)), key=lambda at: -(lags[at] * rows % total))
    for at in by_rest[: rows - sum(taken)]:
        taken[at] += 1
    return taken
