"""The trace table of documents.

It has links, versions, ballots and sizes; never a document, a key or a packed register.
"""

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

from docstore.documents import effects, events
from docstore.machines.effects import Give, Persist, Read
from docstore.machines.events import LinkMade, Persisted, QueriesAnswered
from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from docstore.runtime.trace.brief import (
    OCCASION,
    REPEATED,
    ROUTINE,
    TURN,
    Brief,
    BriefKind,
    Shape,
    Table,
    facts,
    items,
)
from docstore.runtime.trace.of_machines import answers, common
from docstore.storage.replication_log import Arrive
from docstore.storage.store import Append, Base, Query, Result, SaveConfiguration, SaveSlot, Write
from docstore.wire import messages

ROW = "slot n epoch owner link version"
_row = itemgetter(*range(6))


def _rows(name: str, rank: int, beside: str) -> Shape:
    return items(name, rank, "rows", ROW, of=_row, beside=beside)


def _bitmap(name: str, many: str, beside: str = "") -> Shape:
    return items(name, TURN, many, "slots", beside=beside)


_TRACE = Operation.__slots__.index("trace")


def _operation(forwarded: messages.Forwarded) -> tuple[Any, ...]:
    """Return the values of a forwarded operation, a plain tuple when another node sent it."""
    verb, link, body, *_ = fields = forwarded.operation
    trace = fields[_TRACE] if len(fields) > _TRACE else ""
    return (forwarded.boot, forwarded.seq, forwarded.attempt, verb, link, len(body), trace)


def _answer(answered: tuple[int, int, Any, bool]) -> tuple[int, int, int, str]:
    seq, attempt, answer, _ = answered
    return (seq, attempt, *(answer[:2] if answer is not None else (0, "not-mine")))


MESSAGES: Mapping[type, Shape] = {
    messages.Heartbeat: items("Heartbeat", REPEATED, "claims", "epoch slots", beside="fit faulty"),
    messages.PreVote: _bitmap("PreVote", "slots", "round"),
    messages.PreVoted: _bitmap("PreVoted", "refused", "round"),
    messages.Prepare: _bitmap("Prepare", "slots", "epoch"),
    messages.Promised: items(
        "Promised", TURN, "evidence", "slot full adopted end decided kept", of=_row, beside="epoch"
    ),
    messages.Refused: items("Refused", TURN, "slots", "slot epoch promised"),
    messages.Fetch: facts("Fetch", TURN, "slot epoch first last"),
    messages.Fetched: _rows("Fetched", TURN, "slot epoch first"),
    messages.Propose: items(
        "Propose",
        ROUTINE,
        "offers",
        "slot epoch first decided",
        of=itemgetter(0, 1, 3, 5),
        beside="number",
    ),
    messages.Accepted: items("Accepted", ROUTINE, "slots", "slot epoch end"),
    messages.AcceptedAll: facts("AcceptedAll", ROUTINE, "boot number"),
    messages.Gap: facts("Gap", TURN, "slot epoch full adopted end decided copying"),
    messages.Adopt: _rows("Adopt", TURN, "slot epoch base common decided"),
    messages.Copy: _rows("Copy", TURN, "slot epoch base after kept last"),
    messages.Decide: items("Decide", ROUTINE, "slots", "slot epoch decided"),
    messages.ReplicatedTo: items("ReplicatedTo", ROUTINE, "slots", "slot epoch n"),
    messages.HandOver: _bitmap("HandOver", "slots"),
    messages.Release: items("Release", TURN, "slots", "slot epoch"),
    messages.Confirm: items("Confirm", ROUTINE, "slots", "slot epoch", beside="round"),
    messages.Confirmed: items(
        "Confirmed", ROUTINE, "refused", "slot epoch promised", beside="round"
    ),
    messages.Forward: items(
        "Forward", ROUTINE, "operations", "boot seq attempt verb link bytes trace", of=_operation
    ),
    messages.Answered: items("Answered", ROUTINE, "answers", "seq attempt status code", of=_answer),
    messages.RequestVote: facts("RequestVote", TURN, "generation adopted id pre"),
    messages.Vote: facts("Vote", TURN, "asked generation granted pre"),
    messages.Lead: facts("Lead", REPEATED, "generation id decided"),
    messages.Follow: facts("Follow", REPEATED, "generation id"),
    messages.Succeed: facts("Succeed", TURN, "generation"),
    messages.Configured: facts("Configured", TURN),
    messages.Offering: facts("Offering", TURN, "disk n"),
    messages.Following: facts("Following", ROUTINE, "of n disk asks"),
    messages.Spread: _rows("Spread", ROUTINE, "disk after n end"),
    messages.RequestVersions: facts("RequestVersions", ROUTINE, "of n"),
    messages.SendVersions: _rows("SendVersions", ROUTINE, "disk n"),
}

_OPERATION = tuple("verb link level bytes trace".split())
_REQUESTED = BriefKind("Requested", ("request", *_OPERATION))
_BATCH_REQUESTED = BriefKind("BatchRequested", ("first",), _OPERATION)
_RESPOND = BriefKind("Respond", ("request", "status", "code"), tuple(ROW.split()))
_PERSIST = BriefKind("Persist", ("token",), tuple(ROW.split()))
_PERSIST_ALSO = BriefKind("Persist", ("token",), ("write", *ROW.split()))
_READ = BriefKind("Read", ("token", "query", "slot", "link"))
_PUBLISH = BriefKind("Publish", tuple(ROW.split()))
_CHANGE = BriefKind("ChangeAsked", ("request", "change", "node"))


def _operation_of(operation: Operation) -> tuple[Any, ...]:
    size = len(operation.body)
    return (operation.verb, operation.link, operation.level, size, operation.trace)


def _requested(event: events.Requested) -> Brief:
    return _REQUESTED, (event.request, *_operation_of(event.operation)), ()


def _batch_requested(event: events.BatchRequested) -> Brief:
    return _BATCH_REQUESTED, event.first, list(map(_operation_of, event.operations))


def _respond(effect: Give[Answer]) -> Brief:
    answer = effect.outcome
    row = answer.row
    rows = () if row is None else (row[:6],)
    return _RESPOND, (effect.request, answer.status, answer.code), rows


def _persist(effect: Persist[Write]) -> Brief:
    writes = effect.writes
    if len(writes) == 1:
        [write] = writes
        if type(write) is Append:
            return _PERSIST, effect.token, list(map(_row, write.rows))
    return _PERSIST_ALSO, effect.token, [each for write in writes for each in _also(write)]


def _also(write: Write) -> list[tuple[Any, ...]]:
    """Return the values of a write: its name, its slot if it has one, and the last row."""
    name = type(write).__name__
    match write:
        case Append(rows) | Base(rows):
            return [(name, *row[:6]) for row in rows]
        case Arrive(row, _):
            return [(name, *row[:6])]
        case SaveSlot(record):
            return [(name, record.slot, record.decided, *record.promised)]
        case SaveConfiguration():
            return [(name,)]
        case _:
            end = getattr(write, "end", getattr(write, "kept", getattr(write, "n", None)))
            return [(name, getattr(write, "slot", None), end)]


def _read(effect: Read[Query]) -> Brief:
    query = effect.query
    slot, link = getattr(query, "slot", None), getattr(query, "link", "")
    return _READ, (effect.token, type(query).__name__, slot, link), ()


def _publish(effect: effects.Publish) -> Brief:
    return _PUBLISH, effect.row[:6], ()


def _change(event: events.ChangeAsked) -> Brief:
    change = event.change
    node = change.node or (change.entry.id if change.entry is not None else "")
    return _CHANGE, (event.request, str(change.kind), node), ()


TABLE: Table = {
    **common(events.Event, effects.Effect),
    **MESSAGES,
    events.Requested: Shape(ROUTINE, _requested),
    events.BatchRequested: Shape(ROUTINE, _batch_requested),
    Persisted: facts("Persisted", OCCASION, "token"),
    events.DiskFilled: facts("DiskFilled", TURN),
    QueriesAnswered: answers("QueriesAnswered"),
    events.ViewChanged: facts("ViewChanged", TURN, "alive"),
    LinkMade: facts("LinkMade", TURN, "peer protocol"),
    events.ResyncAsked: facts("ResyncAsked", TURN),
    events.CompactAsked: facts("CompactAsked", TURN, "before_us"),
    events.PinsRead: facts("PinsRead", REPEATED),
    events.SlotCorrupted: facts("SlotCorrupted", TURN, "slot"),
    events.ChangeAsked: Shape(TURN, _change),
    events.BarrierAsked: facts("BarrierAsked", ROUTINE, "seconds"),
    events.ReadIndexAsked: facts("ReadIndexAsked", ROUTINE, "request"),
    Persist: Shape(ROUTINE, _persist),
    Read: Shape(ROUTINE, _read),
    Give: Shape(ROUTINE, _respond),
    effects.Publish: Shape(ROUTINE, _publish),
    effects.Reconfigured: facts("Reconfigured", TURN, "configuration.id"),
    effects.ChangeAnswered: facts("ChangeAnswered", TURN, "request status code"),
    effects.ReadIndexAnswered: facts("ReadIndexAnswered", ROUTINE, "request"),
}
"""All events, effects and messages of `docstore/documents`."""


_state = itemgetter(12)


def bytes_of_rows(rows: Iterable[Row]) -> int:
    return sum(map(len, map(_state, rows)))


def bytes_of(writes: Iterable[Write]) -> int:
    return sum(bytes_of_rows(each.rows) for each in writes if type(each) is Append)


def bytes_read(results: Iterable[Result]) -> int:
    return sum(bytes_of_rows(each) for each in results if type(each) is list)
