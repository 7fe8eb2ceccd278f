"""Compare the answers of clients with the decided log."""

import json
from collections import Counter, defaultdict

from docstore.model.document import Row
from tests.sim.checkers import INFINITE, Event, by_version, by_zones
from tests.sim.workload import Op


def document_problems(ops: list[Op], rows: list[Row]) -> list[str]:
    """Return what is wrong with one document. `rows`: its decided versions, in order."""
    wrong = []
    numbers = [row.version for row in rows]
    if numbers != sorted(set(numbers)):
        wrong.append(f"versions {numbers}")
    kept = {row.version: row for row in rows}
    writers = _writers(rows)
    for uid, count in Counter(uid for uid in writers.values() if uid).items():
        if count > 1:
            wrong.append(f"{uid} was applied {count} times")
    made = {uid: version for version, uid in writers.items() if uid}
    events = []
    for op in ops:
        wrong.extend(_op_problems(op, kept, made))
        if op.kind == "past":
            continue
        version = op.version if op.outcome == "ok" else made.get(op.uid)
        if op.kind == "read" and version == -1:
            version = _unseen_tombstone(op, ops, rows)
        if version is None or (op.kind == "read" and op.outcome != "ok"):
            continue
        end = op.end if op.outcome == "ok" else INFINITE
        events.append(Event(op.kind != "read", op.start, end, version))
    return wrong + _order_problems(events, rows)


def _unseen_tombstone(read: Op, ops: list[Op], rows: list[Row]) -> int:
    """Return the version that a read of an absent document must have seen.

    Tombstones are trimmed, so that the answer does not name one. It is the first that is not older
    than all versions answered before the read began; -1 if there is none.
    """
    told = (
        op.version
        for op in ops
        if op.end < read.start
        and op.outcome == "ok"
        and op.kind != "past"
        and op.version is not None
    )
    least = max(told, default=-1)
    tombs = (row.version for row in rows if row.deleted and row.version >= least)
    return min(tombs, default=-1) if least >= 0 else -1


def _order_problems(events: list[Event], rows: list[Row]) -> list[str]:
    known = {event.version for event in events if event.is_write}
    # A tombstone whose client never got an answer has no writer among the events.
    missing = [row.version for row in rows if row.version not in known]
    whole = [*events, *(Event(True, 0.0, INFINITE, version) for version in missing)]
    found = [problem for problem in (by_version(whole), by_zones(whole)) if problem]
    return sorted(set(found))


def _writers(rows: list[Row]) -> dict[int, str]:
    """Return version -> uid of the operation that made it, "" for a deletion."""
    writers = {}
    for row in rows:
        log = json.loads(row.state).get("log", [])
        writers[row.version] = "" if row.deleted or not log else log[-1]
    return writers


def _op_problems(op: Op, rows: dict[int, Row], made: dict[str, int]) -> list[str]:
    label = f"{op.kind} {op.uid}"
    if op.outcome == "overdue":
        return [f"{label} had no answer by its deadline"]
    if op.kind == "read":
        return _read_problems(op, label, rows)
    if op.kind == "past":
        return _past_problems(op, label, rows)
    if op.outcome == "refused" and op.uid in made:
        return [f"{label} was refused and took effect"]
    if op.outcome == "ok":
        if op.version not in rows:
            return [f"{label} v{op.version} is lost"]
        row = rows[op.version]
        right = row.deleted if op.kind == "delete" else made.get(op.uid) == op.version
        if not right:
            return [f"{label} v{op.version} is lost: another one is there"]
        if op.expected is not None and op.version != op.expected + 1:
            return [f"{label} was based on v{op.expected} and became v{op.version}"]
    return []


def _read_problems(op: Op, label: str, rows: dict[int, Row]) -> list[str]:
    if op.outcome != "ok" or op.version is None or op.version < 0:
        return []
    if op.version not in rows:
        return [f"{label} saw v{op.version}, which was never decided"]
    row = rows[op.version]
    log = None if row.deleted else tuple(json.loads(row.state).get("log", ()))
    return [] if log == op.log else [f"{label} saw v{op.version} with another content"]


def _past_problems(op: Op, label: str, rows: dict[int, Row]) -> list[str]:
    """Check that a version that was answered once stays, with its content."""
    if op.outcome != "ok" or op.expected is None or op.expected < 0:
        return []
    if op.version is None:
        return [f"{label} did not find v{op.expected}, which had been answered"]
    return _read_problems(op, label, rows)


def split(ops: list[Op]) -> dict[str, list[Op]]:
    """Return link -> its operations."""
    by_link: dict[str, list[Op]] = defaultdict(list)
    for op in ops:
        by_link[op.link].append(op)
    return by_link
