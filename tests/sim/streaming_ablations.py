"""Removal of one rule of streams at a time, from outside: the runs must notice each.

A round of witnesses is no promise: without it a healthy leader is replaced more often, and that is
counted (`MORE`). Three rules need a coincidence that runs do not meet, and have a test of a few
machines that fails without them: a replica joins the set without the log start only if the message
about it is lost at that very moment; an update of unknown fate that is treated as rejected leaves a
member uncounted only until its leader learns of it; and the choice of a leader among those that may
lead decides only which uncommitted records are lost (`lost uncommitted` counts).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from docstore.machines import updates
from docstore.machines.events import Room
from docstore.machines.updates import Updates
from docstore.model.operation import Answer
from docstore.ownership import by_lag
from docstore.storage.partitions import StreamsRecovered
from docstore.streams import (
    catchup,
    directory,
    elections,
    fencing,
    record_deletion,
    replica_set,
)
from docstore.streams import controlled_partition as governed
from docstore.streams import role_transitions as roles
from docstore.streams.compaction import NewestOffsets, PassBounds
from docstore.streams.compaction_task import CompactionTask
from docstore.streams.core import Core
from docstore.streams.disk import Disk
from docstore.streams.elections import Elections
from docstore.streams.fetching import Fetching
from docstore.streams.follower import FollowedPartitions
from docstore.streams.high_watermark import HighWatermarks
from docstore.streams.leading import Leading
from docstore.streams.log import PartitionLog
from docstore.streams.partitions import Partitions
from docstore.streams.producer_state import ProducerState
from docstore.streams.producing import ClientProduces
from docstore.streams.purgatory import Purgatory
from docstore.streams.reassignment import Reassignment
from docstore.streams.records import Record
from docstore.streams.replica_set import Copy, ReplicaSet, Resolution
from docstore.streams.replicas import Replicas
from docstore.streams.role_transitions import Roles
from docstore.streams.witnesses import Witnesses
from docstore.wire.streams_messages import Adopt
from tests.sim import streaming, streaming_bench, streaming_documents
from tests.sim.register import RegisterView
from tests.sim.streaming_shapes import Shape
from tests.sim.taken_away import Ablation, changed, never, no_why, nothing

BASIC = Shape(partitions=2, fail_back_s=0.5)
CRASHES = Shape(kinds=("crash", "crash", "storm", "flap"), tail_bytes=400, snapshot_batches=3)
CUTS = Shape(kinds=("isolate", "isolate", "cut", "pause", "pause"), acks="mixed")
SETS = Shape(kinds=("isolate", "pause", "flap", "crash"), max_lag_ms=300, producers=5)
SLOW = Shape(partitions=3, kinds=("slow", "slow", "move", "move", "move", "crash", "crash"))
TAILS = Shape(kinds=("isolate", "isolate", "oneway", "cut"), acks="leader", producers=6)
PLAIN = Shape(kinds=("flap", "flap", "move", "pause", "crash"), producers=6, numbered=False)
DISKS = Shape(kinds=("lose_streams", "old_streams", "crash", "isolate"), max_lag_ms=300)
FULL = Shape(kinds=("full", "full", "crash"), acks="mixed")
AGAIN = Shape(kinds=("recreate", "crash", "pause"))
BEHIND = Shape(
    kinds=("isolate", "isolate", "crash"), least=3, acks="leader", max_lag_ms=300, producers=5
)
GROUPS = Shape(kinds=("change",), partitions=2, factor=1, least=1, changes=True)
OFFLINE = Shape(
    kinds=("crash", "crash", "isolate"), factor=2, least=1, max_lag_ms=300, offline_retry_s=0.5
)
DEAF = Shape(kinds=("deaf",), partitions=3)
CLOCKS = Shape(kinds=("clock", "clock", "slow"), beside=("crash", "isolate"), retention_ms=1_500)
DELETED = Shape(
    kinds=("crash", "crash", "isolate", "flap"), deletes=True, max_lag_ms=300, tail_bytes=400
)
COMPACTED = Shape(
    kinds=("crash", "crash", "isolate", "flap", "pause"), cleanup="compact", tail_bytes=400,
    snapshot_batches=3, page_bytes=300, max_lag_ms=300, producers=4,
)  # fmt: skip
AWAY = replace(
    COMPACTED, kinds=("isolate", "isolate", "move"), faults_s=20.0, keys=40, tombstone_s=0.6
)
UNCLEANLY = replace(
    COMPACTED, size=4, factor=2, least=1, partitions=4, producers=8, unclean=True,
    kinds=("crash", "crash", "isolate"), offline_retry_s=0.5,
)  # fmt: skip
KEPT = Shape(kinds=("crash", "pause"), retention_ms=500, retention_bytes=1_000)


_flush, _recover, _resign = Disk.flush, Replicas.recover, Roles.resign
_adopt, _step, _told = FollowedPartitions.adopt, Partitions.step, Updates._told


def _tell_early(self: Disk) -> None:
    """Send the messages that wait for a write as soon as it is on its way to the disk."""
    _flush(self)
    for batch in list(self.unfinished):
        then, batch.then = batch.then, []
        for each in then:
            each()


def _count_early(self: Disk) -> None:
    """Treat writes on their way to the disk as durable."""
    _flush(self)
    for batch in list(self.unfinished):
        self._release(batch)
        batch.ends, batch.accepted = {}, {}


def _unknown_is_refused(self: Updates, update: Any, answer: Answer) -> None:
    _told(self, update, answer._replace(unknown=False, status=409) if answer.unknown else answer)


def _always_unclean(self: Elections, known: Any, topic: Any) -> None:
    known.is_asking, known.since, known.is_unclean = False, self._core.now, True


def _longest(answers: Any, rank: Callable[[str], int]) -> str | None:
    return max(sorted(answers), key=lambda node: (answers[node][1], -rank(node)), default=None)


def _not_heard(self: Witnesses, node: str, witnesses: frozenset[str]) -> bool:
    return not self._core.view.is_alive(node)


def _without_old(self: Leading) -> set[Copy]:
    return set(self.recorded if self.changing is None else self.changing)


def _without_new(self: Leading) -> set[Copy]:
    return set(self.recorded)


def _all_that_answer(self: Elections, known: Any) -> dict[str, Copy]:
    return {node: (node, each.copy) for node, each in sorted(known.answers.items()) if each.full}


def _elr_kept(lrs: Any, elr: Any, after: Any, least: int) -> Any:
    return after, tuple(each for each in (*lrs, *elr) if each not in after)


def _advance_alone(self: HighWatermarks, leading: Leading) -> None:
    """Commit with one replica alone."""
    least, leading.least = leading.least, 1
    _advance(self, leading)
    leading.least = least


def _elect_at_once(self: Elections, known: Any, why: str) -> None:
    """Use the next epoch before the document has it."""
    if known.is_updating:
        return
    known.found = replace_found(known.found)
    known.since = self._core.now
    known.answers.clear()
    known.fenced_at = float("-inf")
    self._open[known.link] = known
    self.go_on(known)


def replace_found(found: ReplicaSet) -> ReplicaSet:
    """Return an election under the next epoch."""
    values = {name: getattr(found, name) for name in ReplicaSet.__slots__}
    news = {"epoch": found.epoch + 1, "leader": "", "candidate": ""}
    return ReplicaSet(**{**values, **news, "resolution": Resolution.ELECTION})


def _same_copy(self: Core) -> str:
    return f"of {self.me}"


def _go_on_leading(self: Roles, log: PartitionLog, epoch: int, why: str) -> None:
    """Continue to lead under the ballot of the previous life."""
    if why != "restarted" or log.replica_set is None or log.promised != (epoch, self._core.me):
        _resign(self, log, epoch, why)
        return
    self._leader.open(log, log.replica_set)
    self._leader.serve(self._leader.leading[log.name])


def _cut_at_start(self: Replicas, recovered: StreamsRecovered) -> None:
    """Cut each log to its high watermark at the start."""
    _recover(self, recovered)
    for log in self._logs.values():
        if log.high < log.end:
            log.cut(log.high)
            self._disk.cut(log)


def _join_uncut(self: FollowedPartitions, log: PartitionLog, ballot: Any, message: Adopt) -> bool:
    log.joined = ballot
    self._disk.save(log)
    return True


def _high_before_cut(self: FollowedPartitions, sender: str, message: Adopt) -> None:
    log = self._logs.get(message.name)
    if log is not None and (message.epoch, sender) >= log.promised:
        log.high = max(log.high, min(message.high, log.end))
    _adopt(self, sender, message)


def _repeat_at_once(self: Purgatory, leading: Leading, pending: Any) -> None:
    """Answer a repetition before its original is committed."""
    if pending.repeated:
        self.answer(pending, leading, "repeated")
    else:
        _wait(self, leading, pending)


def _one_life(link: str, incarnation: str) -> str:
    return _named(link, "i0")


def _known_life(self: PartitionLog) -> str:
    return self.replica_set.incarnation if self.replica_set is not None else "i0"


def _up_to_end(self: Fetching, log: PartitionLog, reader: Any) -> int:
    return log.end


def _trim_all(self: FollowedPartitions, log: PartitionLog, high: int, start: int) -> None:
    """Trim all records at a follower, without its leader."""
    if log.end - log.start > 20:
        log.trim(log.end)
    _learn(self, log, high, start)


def _ask_again(self: ClientProduces, asked: Any) -> None:
    asked.may_be_appended = True
    self._retry_later(asked)


def _reset_when_full(self: Partitions, event: Any, now: float) -> Any:
    """Cut the logs of a leader to what is durable once its disk is full."""
    if isinstance(event, Room) and not event.has_room:
        for leading in self.leader.leading.values():
            leading.log.cut(leading.log.durable)
    return _step(self, event, now)


def _of_a_known_key(self: NewestOffsets, offset: int, record: Record) -> bool:
    return record.key in self._offsets


def _all_expired(self: CompactionTask, log: PartitionLog) -> PassBounds:
    return _bounds(self, log)._replace(expired_us=1 << 62)


def _cut_anyway(self: FollowedPartitions, log: PartitionLog, end: int) -> None:
    log.cut(end)
    self._disk.cut(log)
    self._disk.save(log)
    self.seek(log)


_bounds: Callable[..., PassBounds] = CompactionTask._bounds
_advance: Callable[..., None] = HighWatermarks.advance
_wait: Callable[..., None] = Purgatory.wait
_learn: Callable[..., None] = FollowedPartitions._learn
_named: Callable[[str, str], str] = replica_set.partition_name
_ANY_MAY_FOLLOW = (replica_set, "may_follow", no_why)
"""The second check, at the documents' owner, is removed with the first."""

RULES: dict[str, Ablation] = {
    "told-before-the-promise-is-kept": Ablation("P3", ((Disk, "flush", _tell_early),), SLOW),
    "no-fence": Ablation("RF1", ((fencing, "is_fenced", never),), CUTS),
    "counted-before-it-is-kept": Ablation("RC1", ((Disk, "flush", _count_early),), CRASHES),
    "old-members-not-counted": Ablation(
        "RC2", ((Leading, "required", property(_without_old)),), SETS
    ),
    "new-members-not-counted": Ablation(
        "RC2", ((Leading, "required", property(_without_new)),), SETS
    ),
    "any-replica-is-elected": Ablation(
        "RC5", ((Elections, "_holders", _all_that_answer), _ANY_MAY_FOLLOW), SETS
    ),
    "eligible-for-ever": Ablation(
        "RC4", ((by_lag, "_with_eligible", _elr_kept), _ANY_MAY_FOLLOW), BASIC
    ),
    "committed-by-too-few": Ablation("RC2", ((HighWatermarks, "advance", _advance_alone),), SETS),
    "updates-without-a-tag": Ablation(
        "RF2", ((updates, "Conditions", nothing), _ANY_MAY_FOLLOW), SETS
    ),
    "fenced-before-the-epoch-is-allocated": Ablation(
        "RF3", ((Elections, "elect", _elect_at_once), _ANY_MAY_FOLLOW), CRASHES
    ),
    "nodes-instead-of-copies": Ablation("RC5", ((Core, "new_copy", _same_copy),), DISKS),
    "leads-on-after-a-restart": Ablation("B2", ((Roles, "resign", _go_on_leading),), CRASHES),
    "cut-to-the-high-watermark-at-start": Ablation(
        "RC8", ((Replicas, "recover", _cut_at_start),), CRASHES
    ),
    "joined-without-a-cut": Ablation("RC6", ((FollowedPartitions, "_join", _join_uncut),), CUTS),
    "high-taken-before-the-cut": Ablation(
        "RC8", ((FollowedPartitions, "adopt", _high_before_cut),), TAILS
    ),
    "repetition-answered-at-once": Ablation("RN1", ((Purgatory, "wait", _repeat_at_once),), CUTS),
    "producers-not-cut": Ablation("RN2", ((ProducerState, "cut", nothing),), CUTS),
    "incarnations-are-one": Ablation(
        "RF4",
        (
            *(
                (where, "partition_name", _one_life)
                for where in (
                    roles,
                    governed,
                    directory,
                    streaming,
                    streaming_bench,
                    streaming_documents,
                )
            ),
            (PartitionLog, "incarnation", property(_known_life)),
        ),
        AGAIN,
    ),
    "read-up-to-the-end": Ablation("RI9", ((Fetching, "_bound", _up_to_end),), CUTS),
    "shown-before-it-is-known": Ablation(
        "RC9", ((Leading, "shown_high", property(lambda self: self.log.high)),), CRASHES
    ),
    "trimmed-by-followers": Ablation("RC11", ((FollowedPartitions, "_learn", _trim_all),), KEPT),
    "old-by-the-leader's-own-clock": Ablation(
        "D6", ((RegisterView, "past_us", RegisterView.wall_now_us),), CLOCKS
    ),
    "deleted-before-others-know": Ablation(
        "RC12", ((record_deletion, "_is_known", lambda leading: True),), DELETED
    ),
    "compacted-above-the-high-watermark": Ablation(
        "RC13", ((CompactionTask, "_limit", lambda self, log: log.end),), COMPACTED
    ),
    "newest-record-removed": Ablation(
        "RC13", ((NewestOffsets, "supersedes", _of_a_known_key),), COMPACTED
    ),
    "producers-compacted-away": Ablation("RN2", ((ProducerState, "remembers", never),), COMPACTED),
    "tombstones-removed-at-once": Ablation(
        "RC14", ((CompactionTask, "_bounds", _all_expired),), COMPACTED
    ),
    "outdated-replicas-go-on": Ablation("RC14", ((catchup, "flags_of", lambda raw: 0),), AWAY),
    "compacted-logs-are-cut": Ablation(
        "RC13", ((FollowedPartitions, "_compare", _cut_anyway),), UNCLEANLY
    ),
    "appended-again-without-a-number": Ablation(
        "RN3", ((ClientProduces, "_lost", _ask_again),), PLAIN
    ),
    "reset-when-the-disk-is-full": Ablation("RD1", ((Partitions, "step", _reset_when_full),), FULL),
    "members-leave-with-their-data": Ablation("RM1", ((Reassignment, "blocks", never),), GROUPS),
    "unclean-without-leave": Ablation(
        "RF5", ((Elections, "_may_be_unclean", _always_unclean),), OFFLINE
    ),
    "unknown-taken-for-refused": Ablation("RC2", ((Updates, "_told", _unknown_is_refused),), SETS),
    "elected-by-length-alone": Ablation("RF6", ((elections, "choose", _longest),), BEHIND),
    "no-witnesses": Ablation("RF7", ((Witnesses, "is_gone", _not_heard),), DEAF),
}

MORE = {"no-witnesses": "elections because its leader is gone"}
"""Rule that is no promise -> what is counted more often without it."""


def without(name: str) -> AbstractContextManager[None]:
    """Run the body without a rule."""
    return changed(RULES[name])
