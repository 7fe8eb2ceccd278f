"""The trace table of partitions: names, epochs, offsets and sizes."""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from docstore.machines.effects import Give, Persist, Read
from docstore.machines.events import Persisted, QueriesAnswered
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
from docstore.storage.partitions import (
    AppendBatches,
    PartitionQuery,
    PartitionResult,
    PartitionWrite,
    SavePartition,
)
from docstore.streams import effects, events
from docstore.wire import streams_messages as messages

_first = itemgetter(slice(0, 1))
_three = itemgetter(0, 1, 2)
_STANDING = itemgetter(0, 1, 3, 4, 5, 6, 7)
STANDING = "partition epoch full adopted end high start"

_APPEND = BriefKind("Append", items=tuple("partition epoch base first high bytes".split()))
_PRODUCE = BriefKind("Produce", tuple("id partition acks records bytes trace".split()))
_ASKED = BriefKind("ProduceAsked", tuple("request link acks records bytes trace".split()))
_FETCH = BriefKind("FetchAsked", tuple("request link origin isolation trace".split()))
_KEEP = BriefKind("Keep", ("token",), tuple("write partition bytes".split()))
_LOOK = BriefKind("Look", tuple("token query partition".split()))
_GIVE = BriefKind("Give", tuple("request outcome code base end".split()))


def _appended(partition: Sequence[Any]) -> tuple[Any, ...]:
    name, epoch, base, first, high, _, _, batches = partition
    return name, epoch, base, first, high, sum(map(len, batches))


def _append(message: messages.Append) -> Brief:
    """Return the brief of appended records, or of a high watermark alone."""
    return _APPEND, (), list(map(_appended, message.partitions))


def _produce(message: messages.Produce) -> Brief:
    said = (message.id, message.name, message.acks, message.records, len(message.body))
    return _PRODUCE, (*said, message.trace), ()


MESSAGES: Mapping[type, Shape] = {
    messages.Witness: facts("Witness", TURN, "round node"),
    messages.Witnessed: facts("Witnessed", TURN, "round node heard"),
    messages.Fence: items("Fence", TURN, "partitions", "partition epoch"),
    messages.Fenced: items("Fenced", TURN, "partitions", STANDING, of=_STANDING),
    messages.Notice: items("Notice", TURN, "documents", "link epoch version", of=_three),
    messages.Promoted: items("Promoted", TURN, "partitions", "partition epoch base"),
    messages.Resign: items("Resign", TURN, "partitions", "partition epoch why"),
    messages.Yield: items("Yield", TURN, "partitions", "partition epoch to"),
    messages.Attach: items("Attach", TURN, "partitions", STANDING, of=_STANDING),
    messages.Adopt: facts(
        "Adopt", TURN, "name epoch base common start high",
        names="partition epoch base common start high",
    ),
    messages.Append: Shape(REPEATED, _append),
    messages.Acked: items(
        "Acked", REPEATED, "partitions", "partition epoch end", of=itemgetter(0, 1, 3)
    ),
    messages.Rejected: items(
        "Rejected", TURN, "partitions", "partition epoch code promised leader"
    ),
    messages.Produce: Shape(ROUTINE, _produce),
    messages.Produced: facts("Produced", ROUTINE, "id code base records end high epoch leader"),
}  # fmt: skip


def _produce_asked(event: events.ProduceAsked) -> Brief:
    said = (event.request, event.link, event.acks, event.records, len(event.body), event.trace)
    return _ASKED, said, ()


def _fetch_asked(event: events.FetchAsked) -> Brief:
    said = (event.request, event.link, event.origin, event.isolation, event.trace)
    return _FETCH, said, ()


def _keep(effect: Persist[PartitionWrite]) -> Brief:
    return _KEEP, effect.token, [each for write in effect.writes for each in _kept(write)]


def _kept(write: PartitionWrite) -> list[tuple[Any, ...]]:
    name = type(write).__name__
    match write:
        case AppendBatches(batches):
            return [(name, partition, len(batch)) for partition, batch in batches]
        case SavePartition(record):
            return [(name, record.name)]
        case _:
            return [(name, write.name)]


def _look(effect: Read[PartitionQuery]) -> Brief:
    query = effect.query
    return _LOOK, (effect.token, type(query).__name__, query.name), ()


def _give(effect: Give[effects.Outcome]) -> Brief:
    outcome = effect.outcome
    code, base, end = (getattr(outcome, name, None) for name in ("code", "base", "end"))
    return _GIVE, (effect.request, type(outcome).__name__, code, base, end), ()


TABLE: Table = {
    **common(events.StreamEvent, effects.StreamEffect),
    **MESSAGES,
    Persisted: facts("Kept", OCCASION, "token"),
    QueriesAnswered: answers("Looked"),
    events.ProduceAsked: Shape(ROUTINE, _produce_asked),
    events.FetchAsked: Shape(ROUTINE, _fetch_asked),
    events.NewsAsked: facts("NewsAsked", ROUTINE, "request deadline"),
    events.NewsForgotten: facts("NewsForgotten", ROUTINE, "request"),
    events.LeaderAsked: facts("LeaderAsked", ROUTINE, "request link refresh"),
    events.FiguresAsked: facts("FiguresAsked", OCCASION, "request"),
    events.CommandAsked: facts("CommandAsked", TURN, "request link command"),
    events.DeletionAsked: facts("DeletionAsked", TURN, "request link before"),
    Persist: Shape(ROUTINE, _keep),
    Read: Shape(ROUTINE, _look),
    Give: Shape(ROUTINE, _give),
}
"""All events, effects and messages of `docstore/streams`."""


def bytes_of(writes: Iterable[PartitionWrite]) -> int:
    found = (each.batches for each in writes if type(each) is AppendBatches)
    return sum(len(batch) for batches in found for _, batch in batches)


def bytes_found(results: Iterable[PartitionResult]) -> int:
    found = (each for result in results if isinstance(result, list) for each in result)
    return sum(len(each) for each in found if isinstance(each, bytes))
