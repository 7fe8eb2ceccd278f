"""Scan a share of the slots: the rows that one task reads, from any copy that has reached the cut.

A scan returns the same rows in the same order on every copy (`docstore/query/request.py`). So a
task that loses its node continues on another one after the rows that it has received: no row is
repeated or left out. An answer without its closing line is never taken as complete.
"""

import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa

from docstore.pipeline.group_client import (
    GroupClient,
    GroupError,
    Incomplete,
    Unreachable,
    attempts,
    insist_on_retry,
    pause,
)

T = TypeVar("T")
ARROW_TYPE = "application/vnd.apache.arrow.stream"
ACCEPT = f"{ARROW_TYPE}, application/x-ndjson;q=0.5"
LINES_AT_ONCE = 8192

Span = tuple[int, ...]
"""(slot, until) of a snapshot, (slot, after, until) of a log."""


@dataclass(frozen=True, slots=True)
class ScanNode:
    """A node that holds a copy."""

    url: str
    zone: str = ""


@dataclass(frozen=True, slots=True)
class ScanShare:
    """The spans that one task reads, and how it reads them."""

    spans: tuple[Span, ...]
    nodes: tuple[ScanNode, ...]
    """Nodes that hold all of the slots, the preferred ones first."""
    request: dict[str, Any] = field(default_factory=dict)
    """Members of the scan's request other than its slots."""
    is_log: bool = False
    urls: tuple[str, ...] = ()
    """URLs given by the caller, for the layout, and for rows if no copy answers."""
    retries: int = 5
    timeout_s: float = 30.0


def batches(share: ScanShare) -> Iterator[pa.RecordBatch]:
    """Yield each row of a share once. Raises GroupError, OSError if no copy can serve."""
    received = 0

    def ask(group: GroupClient, node: ScanNode) -> Iterator[pa.RecordBatch]:
        nonlocal received
        for batch in _ask(group, node, share, received):
            received += batch.num_rows
            yield batch

    def by_slot(parts: Iterator[ScanShare]) -> Iterator[pa.RecordBatch]:
        """Skip the rows that were received before the slots moved."""
        left = received
        for batch in (batch for part in parts for batch in batches(part)):
            dropped = min(left, batch.num_rows)
            left -= dropped
            if dropped < batch.num_rows:
                yield batch.slice(dropped)

    return from_any_copy(share, ask, by_slot)


def from_any_copy(
    share: ScanShare, ask: Callable[[GroupClient, ScanNode], Iterator[T]],
    by_slot: Callable[[Iterator[ScanShare]], Iterator[T]],
) -> Iterator[T]:  # fmt: skip
    """Yield the answer of a copy, in rounds as in `group_client`. Raises GroupError, OSError.

    The caller's own URLs are tried after the copies, since executors may not reach the advertised
    addresses of these. by_slot: called with a share for each slot if the slots have moved to other
    nodes.
    """
    group = GroupClient(share.urls, timeout_s=share.timeout_s)
    last: Exception = OSError("no node with a copy of these slots is known; retry")
    known = {node.url for node in share.nodes}
    nodes = (*share.nodes, *(ScanNode(url) for url in share.urls if url not in known))
    for attempt in attempts((share.retries + 1) * len(nodes), len(nodes)):
        node = nodes[attempt % len(nodes)]
        failed: Exception
        try:
            yield from ask(group, node)
            return
        except GroupError as error:
            if error.status == 421 and node in share.nodes:
                yield from by_slot(_moved(group, share))
                return
            insist_on_retry(error)
            failed = error
        except (OSError, Incomplete, pa.ArrowException) as error:
            failed = error
        last = failed if node in share.nodes else last
    if isinstance(last, Unreachable):
        last = Unreachable(
            f"{last}; Spark's executors read from the nodes at the addresses that these advertise"
            " (serve --advertise), and no address in the option url holds these rows as well"
        )
    raise last


def _moved(group: GroupClient, share: ScanShare) -> Iterator[ScanShare]:
    """Yield a share for each slot, with the nodes that hold it now."""
    if len(share.spans) == 1:
        pause(1)  # The slot is being moved.
    layout = group.layout()
    nodes = [ScanNode(each["url"], each["zone"]) for each in layout["nodes"]]
    for span in share.spans:
        holders = tuple(nodes[number] for number in layout["replicas"][span[0]])
        yield ScanShare(
            (span,), holders, share.request, share.is_log, share.urls,
            max(0, share.retries - 1), share.timeout_s,
        )  # fmt: skip


def _ask(
    group: GroupClient, node: ScanNode, share: ScanShare, skip: int
) -> Iterator[pa.RecordBatch]:
    name, spans = ("changes", "ranges") if share.is_log else ("scan", "cut")
    body = {**share.request, spans: share.spans, "skip": skip}
    headers = {"Accept": ACCEPT}
    with group.open("POST", node.url, f"/core/spark/{name}", body, headers) as answer:
        is_arrow = answer.headers["Content-Type"] == ARROW_TYPE
        reader = _arrow(answer) if is_arrow else _ndjson(answer, share.request["columns"])
        rows = 0
        while (batch := next(reader)) is not None:
            rows += batch.num_rows
            yield batch
        check_ending(next(reader), rows, node)


def check_ending(ending: Any, rows: int, node: ScanNode) -> None:
    """Check the closing line of an answer. Raises Incomplete, GroupError."""
    if not isinstance(ending, dict):
        raise Incomplete(f"{node.url}: the answer was cut off after {rows} rows")
    if not ending.get("complete"):
        raise GroupError(
            int(ending.get("status", 503)), str(ending.get("errorCode", "")),
            str(ending.get("detail", "")), node.url,
        )  # fmt: skip
    if ending["rows"] != rows:
        raise Incomplete(f"{node.url}: {rows} rows arrived of {ending['rows']}")


def _arrow(answer: BinaryIO) -> Iterator[Any]:
    """Yield the record batches, then None, then the closing line."""
    with pa.ipc.open_stream(answer) as reader:
        yield from reader
    yield None
    line = answer.read()
    yield json.loads(line) if line else None


def _ndjson(answer: BinaryIO, columns: Sequence[str]) -> Iterator[Any]:
    """Yield the same as `_arrow` from NDJSON, which nodes without pyarrow send."""
    waiting: list[dict[str, Any]] = []
    ending = None
    for line in answer:
        row = json.loads(line)
        if "complete" in row and "rows" in row:
            ending = row
            break
        waiting.append(row)
        if len(waiting) >= LINES_AT_ONCE:
            yield _batch(waiting, columns)
            waiting = []
    if waiting:
        yield _batch(waiting, columns)
    yield None
    yield ending


def _batch(rows: list[dict[str, Any]], columns: Sequence[str]) -> pa.RecordBatch:
    for row in rows:
        for name in ("body", "before"):
            if row.get(name) is not None:
                row[name] = json.dumps(row[name], separators=(",", ":"), ensure_ascii=False)
    return pa.RecordBatch.from_pydict({name: [row[name] for row in rows] for name in columns})


def preferred(
    nodes: Sequence[ScanNode], owner: ScanNode | None, read_from: str, turn: int, zone: str
) -> tuple[ScanNode, ...]:
    """Return the copies in the order in which to ask them: near ones first, rotated by task."""
    rotated = [nodes[(turn + i) % len(nodes)] for i in range(len(nodes))]
    here = {"127.0.0.1", "localhost", socket.gethostname()}
    zone = zone or os.environ.get("DOCSTORE_ZONE", "")

    def distance(node: ScanNode) -> tuple[bool, bool, bool]:
        misses = {"owner": node != owner, "replica": node == owner}.get(read_from, False)
        return (misses, urlsplit(node.url).hostname not in here, bool(zone) and node.zone != zone)

    return tuple(sorted(rotated, key=distance))
