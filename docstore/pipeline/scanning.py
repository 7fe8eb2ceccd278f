"""One task's share of a scan: from whichever copy is near and has come far enough.

A scan gives the same rows in the same order on every copy (`docstore/query/request.py`), so a
task that loses its node goes on at another one behind the rows that it has: nothing is repeated
and nothing is left out, and an answer without its closing line is never taken for a whole one.
"""

import http.client
import json
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import pyarrow as pa

from docstore.pipeline.group_client import (
    AGAIN,
    GroupClient,
    GroupError,
    Incomplete,
    Unreachable,
    pause,
)

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
    """What one task reads.

    nodes: that hold all of its slots, the preferred ones first. is_log: see Span.
    request: members of the scan's request beside its slots.
    """

    spans: tuple[Span, ...]
    nodes: tuple[ScanNode, ...]
    request: dict[str, Any] = field(default_factory=dict)
    is_log: bool = False
    urls: tuple[str, ...] = ()
    """Nodes to ask for a new map when slots have moved."""
    retries: int = 5
    timeout_s: float = 30.0


def batches(share: ScanShare) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a share, each once. Raises GroupError, OSError when no copy can serve."""
    received = 0
    group = GroupClient(share.urls, timeout_s=share.timeout_s)
    last: Exception = OSError("there is no copy to ask")
    for node in turns(share):
        try:
            for batch in _ask(group, node, share, received):
                received += batch.num_rows
                yield batch
            return
        except GroupError as error:
            if is_moved(error, node, share):
                yield from _slot_by_slot(group, share, received)
                return
            last = error if node in share.nodes else last
        except (OSError, Incomplete, http.client.HTTPException, pa.ArrowException) as error:
            last = error if node in share.nodes else last
    raise unserved(last)


def turns(share: ScanShare) -> Iterator[ScanNode]:
    """Yield the nodes to ask in turn, as often as the share allows, pausing after each round.

    Behind the copies, at the addresses that they advertise, come those that the caller gave: from
    here a copy may be reached at one of these alone.
    """
    known = {node.url for node in share.nodes}
    nodes = (*share.nodes, *(ScanNode(url) for url in share.urls if url not in known))
    for attempt in range((share.retries + 1) * len(nodes)):
        yield nodes[attempt % len(nodes)]
        if attempt + 1 >= len(nodes):
            pause(attempt // len(nodes))


def is_moved(error: GroupError, node: ScanNode, share: ScanShare) -> bool:
    """Say whether slots have moved away from a copy. Raises what no other node can mend."""
    if error.status == 421:
        return node in share.nodes
    if error.status not in AGAIN:
        raise error
    return False


def unserved(last: Exception) -> Exception:
    """Return the error of a share that no node has served; of the last copy that was asked."""
    if not isinstance(last, Unreachable):
        return last
    return Unreachable(
        f"{last}; Spark's executors read from the nodes at the addresses that these advertise"
        " (serve --advertise), and no address in the option url holds these rows as well"
    )


def moved(group: GroupClient, share: ScanShare) -> Iterator[ScanShare]:
    """Yield a share for each slot, from whoever holds it now: after slots have moved."""
    if len(share.spans) == 1:
        pause(1)  # It moves right now.
    layout = group.json("GET", "/core/spark/layout")
    nodes = [ScanNode(each["url"], each["zone"]) for each in layout["nodes"]]
    for span in share.spans:
        holders = tuple(nodes[number] for number in layout["replicas"][span[0]])
        yield ScanShare(
            (span,), holders, share.request, share.is_log, share.urls,
            max(0, share.retries - 1), share.timeout_s,
        )  # fmt: skip


def _slot_by_slot(group: GroupClient, share: ScanShare, received: int) -> Iterator[pa.RecordBatch]:
    """Go on behind the rows that are there, slot by slot."""
    for part in moved(group, share):
        for batch in batches(part):
            dropped = min(received, batch.num_rows)
            received -= dropped
            if dropped < batch.num_rows:
                yield batch.slice(dropped)


def _ask(
    group: GroupClient, node: ScanNode, share: ScanShare, skip: int
) -> Iterator[pa.RecordBatch]:
    name, spans = ("changes", "ranges") if share.is_log else ("scan", "cut")
    body = {**share.request, spans: share.spans, "skip": skip}
    headers = {"Accept": ACCEPT}
    with group.open("POST", node.url, f"/core/spark/{name}", body, headers) as answer:
        is_arrow = answer.headers["Content-Type"] == ARROW_TYPE
        reader = _arrow(answer) if is_arrow else _lines(answer, share.request["columns"])
        rows = 0
        while (batch := next(reader)) is not None:
            rows += batch.num_rows
            yield batch
        check_ending(next(reader), rows, node)


def check_ending(ending: Any, rows: int, node: ScanNode) -> None:
    """Insist on the line behind an answer. Raises Incomplete, GroupError."""
    if not isinstance(ending, dict):
        raise Incomplete(f"{node.url}: the answer was cut off after {rows} rows")
    if not ending.get("complete"):
        raise GroupError(
            int(ending.get("status", 503)), str(ending.get("errorCode", "")),
            str(ending.get("detail", "")), node.url,
        )  # fmt: skip
    if ending["rows"] != rows:
        raise Incomplete(f"{node.url}: {rows} rows came of {ending['rows']}")


def _arrow(answer: BinaryIO) -> Iterator[Any]:
    """Yield record batches, None at their end, and the closing line."""
    with pa.ipc.open_stream(answer) as reader:
        yield from reader
    yield None
    line = answer.read()
    yield json.loads(line) if line else None


def _lines(answer: BinaryIO, columns: Sequence[str]) -> Iterator[Any]:
    """As `_arrow`, from NDJSON: of nodes without pyarrow."""
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
    """Return copies in the order of asking: near ones first, and not the same one for all tasks."""
    rotated = [nodes[(turn + i) % len(nodes)] for i in range(len(nodes))]
    here = {"127.0.0.1", "localhost", socket.gethostname()}
    zone = zone or os.environ.get("DOCSTORE_ZONE", "")

    def distance(node: ScanNode) -> tuple[bool, bool, bool]:
        misses = {"owner": node != owner, "replica": node == owner}.get(read_from, False)
        return (misses, urlsplit(node.url).hostname not in here, bool(zone) and node.zone != zone)

    return tuple(sorted(rotated, key=distance))
