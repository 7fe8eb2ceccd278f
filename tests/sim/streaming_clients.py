"""Clients of streams: producers that retry, consumers that follow, and their answers."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from zlib import crc32

from docstore.model.streams_batch import COUNTED, is_of, place_of
from docstore.streams.effects import HIGH_NOT_KNOWN, Deleted, Outcome, Problem, Records
from docstore.streams.events import DeletionAsked, FetchAsked, ProduceAsked
from docstore.streams.record_deletion import ALL_COMMITTED
from docstore.streams.records import Record, pack
from docstore.streams.replica_set import ReplicaSet, partition_name
from docstore.testing.simulation.world import World
from docstore.wire.streams_messages import Produced
from tests.sim.companion import Streamer
from tests.sim.invariants import Violation
from tests.sim.streaming_compaction import UID
from tests.sim.streaming_invariants import STAMPED_EARLY_S, StreamInvariants
from tests.sim.streaming_reads import check_high, read
from tests.sim.streaming_shapes import Shape

SEQUENCES = ("producer-fenced", "sequence-gap", "stale-sequence", "unknown-producer")
GRACE_S = 1.0
"""After its deadline an answer is overdue."""


class Bench(Protocol):
    """Test bench, as far as clients use it."""

    world: World
    names: Sequence[str]
    members: Sequence[str]
    shape: Shape
    streamers: dict[str, Streamer]
    invariants: StreamInvariants

    def name_of(self, link: str) -> str: ...
    def incarnations(self, link: str) -> list[str]: ...
    def document(self, link: str) -> ReplicaSet | None: ...
    def node(self, name: str) -> Any: ...


@dataclass(slots=True)
class Sent:
    """Records of one produce, and its state."""

    link: str
    uids: list[str]
    acks: str
    sequence: int
    attempts: int = 0
    may_be_applied: bool = False
    done: bool = False


@dataclass(slots=True)
class Told:
    """Answers that clients got."""

    problems: list[str] = field(default_factory=list)
    committed: list[tuple[str, str]] = field(default_factory=list)
    """(name of the partition, value) that were acknowledged as committed."""
    stored: list[tuple[str, str, int]] = field(default_factory=list)
    """The same, with the epoch, as stored by the leader."""
    counters: Counter[str] = field(default_factory=Counter)
    pending: dict[str, Sent] = field(default_factory=dict)
    """Producer that numbers its batches -> records that it still tries to append."""


class Producer:
    """One produce after the other to one partition, through random nodes, until `until`."""

    def __init__(
        self,
        name: str,
        bench: Bench,
        told: Told,
        *,
        link: str,
        numbered: bool,
        acks: str,
        until: float,
    ) -> None:
        """numbered: it is idempotent, and retries without an answer. acks: or "mixed"."""
        self.name, self._bench, self._told = name, bench, told
        self._link, self._numbered, self._acks, self._until = link, numbered, acks, until
        self._is_counted = numbered and self.name[-1] in "02468"
        """Whether it numbers its records, as those of Kafka do."""
        self._world = bench.world
        self._count = 0
        self._epoch = 0
        self._sequence = 0
        self._partition = ""
        """The incarnation that it writes to, by name."""
        self._world.after(0.3 + self._world.rng.random() * 0.3, self._next)

    def _next(self) -> None:
        if self._world.now > self._until:
            return
        rng = self._world.rng
        self._count += 1
        number = rng.choice((1, 1, 2, 3))
        uids = [f"{self.name}.{self._count}.{index}" for index in range(number)]
        acks = rng.choice(("committed", "leader")) if self._acks == "mixed" else self._acks
        self._attempt(Sent(self._link, uids, acks, self._sequence))

    def _attempt(self, sent: Sent) -> None:
        rng, world = self._world.rng, self._world
        sent.attempts += 1
        if self._numbered:
            self._told.pending[self.name] = sent
        # A node that was removed serves no client; once all is healed, no client asks it.
        is_healed = world.now > self._bench.shape.faults_s
        entry = rng.choice(list(self._bench.members if is_healed else self._bench.names))
        node = self._bench.node(entry)
        deadline = world.now + rng.choice((0.4, 2.5))
        body = b"".join(pack(self._record(uid)) for uid in sent.uids)
        producer = (self.name, self._epoch, sent.sequence) if self._numbered else ()
        flags = COUNTED if self._is_counted else 0
        attempt = sent.attempts
        self._told.counters["produces"] += 1
        if node.up:
            self._bench.streamers[entry].request(
                lambda request: ProduceAsked(
                    request, sent.link, sent.acks, deadline, producer, flags, len(sent.uids), body
                ),
                lambda outcome: self._answered(sent, attempt, outcome),
            )
        else:
            sent.attempts += 1
            world.after(0.05, self._again, sent)
            return
        patience_s = deadline - world.now + GRACE_S
        world.after(patience_s, self._give_up, sent, attempt, node, node.life, world.now)

    def _record(self, uid: str) -> Record:
        """Return a record; where topics are compacted, of one of a few keys, or a tombstone."""
        if self._bench.shape.cleanup == "delete":
            return Record(self.name.encode(), uid.encode())
        chance = crc32(uid.encode())
        key = f"{self.name}.{chance % self._bench.shape.keys}".encode()
        if chance // 64 % 5:
            return Record(key, uid.encode())
        return Record(key, None, [(UID, uid.encode())])

    def _again(self, sent: Sent) -> None:
        self._attempt(sent)

    def _answered(self, sent: Sent, attempt: int, outcome: Outcome) -> None:
        if sent.attempts != attempt or sent.done:
            return
        if isinstance(outcome, Produced) and outcome.code in ("", "repeated"):
            self._succeeded(sent, outcome)
        elif isinstance(outcome, Problem):
            self._told.counters[f"produce {outcome.code}"] += 1
            if outcome.unknown:
                sent.may_be_applied = True
            self._failed(sent, outcome.code)
        else:
            raise Violation(f"RI17: a produce is answered by {outcome}")

    def _succeeded(self, sent: Sent, outcome: Produced) -> None:
        """RI17: records that are acknowledged as committed are at their offsets."""
        invariants, told = self._bench.invariants, self._told
        sent.done = True
        told.pending.pop(self.name, None)
        told.counters["produced"] += 1
        told.counters["repeated"] += outcome.code == "repeated"
        for offset, uid in enumerate(sent.uids, outcome.base):
            invariants.checked["RI17"] += 1
            name = self._find(sent, uid, offset)
            if sent.acks == "committed":
                book = invariants.books.get(name)
                is_there = book is not None and book.places.get(uid) == offset
                if not is_there and not (book and uid in book.lost_values):
                    there = book and book.places.get(uid)
                    raise Violation(
                        f"RI17: {uid} is answered at {offset} and is at {there}, {name}"
                    )
                told.committed.append((name, uid))
            else:
                told.stored.append((name, uid, outcome.epoch))
            self._partition = name
        self._sequence = sent.sequence + (len(sent.uids) if self._is_counted else 1)
        self._world.after(0.005 + self._world.rng.random() * 0.08, self._next)

    def _find(self, sent: Sent, uid: str, offset: int) -> str:
        """Return the incarnation that has a value there, the newest if none has."""
        newest = self._bench.name_of(sent.link)
        books = self._bench.invariants.books
        names = self._bench.incarnations(sent.link)
        there = (name for name in names if books[name].places.get(uid) == offset)
        lost = (name for name in names if uid in books[name].lost_values)
        return next(there, next(lost, newest))

    def _failed(self, sent: Sent, code: str) -> None:
        invariants = self._bench.invariants
        sent.attempts += 1
        sent.done = not self._numbered
        if not sent.may_be_applied:
            invariants.checked["RI17 refused"] += 1
            for uid in sent.uids:
                if any(uid in book.seen for book in invariants.books.values()):
                    raise Violation(f"RI17: {uid} was refused as {code}, and is in a log")
                if not self._numbered:
                    invariants.refused[uid] = code
        if code in SEQUENCES:
            self._out_of_order(sent, code)
        elif self._numbered:
            self._world.after(0.02 + self._world.rng.random() * 0.1, self._again, sent)
        else:
            self._world.after(0.01 + self._world.rng.random() * 0.1, self._next)

    def _out_of_order(self, sent: Sent, code: str) -> None:
        """Begin a new epoch, if the missing records may be lost."""
        name = self._bench.name_of(self._link)
        book = self._bench.invariants.books[name]
        # A node that has not learned of a deletion may continue with an earlier incarnation.
        alone = len(self._bench.incarnations(self._link)) == 1
        if self._acks == "committed" and alone and not book.unclean:
            raise Violation(f"RI17: {self.name} gets {code} for {self._epoch, sent.sequence}")
        sent.done = True
        self._told.pending.pop(self.name, None)
        self._told.counters["producers begun anew"] += 1
        self._epoch += 1
        self._sequence = 0
        self._world.after(0.01, self._next)

    def _give_up(self, sent: Sent, attempt: int, node: Any, life: int, asked_at: float) -> None:
        """End an attempt without an answer: its node died, or the answer is overdue."""
        if sent.done or sent.attempts != attempt:
            return
        steady = not node.paused and node.resumed_at < asked_at
        if node.up and node.life == life and steady:
            self._told.problems.append(f"produce {sent.uids} had no answer by its deadline")
        sent.may_be_applied = True
        sent.attempts += 1
        if self._numbered:
            self._again(sent)
        else:
            self._next()


class Consumer:
    """Follows one partition from its beginning, through random nodes, until `until`."""

    def __init__(
        self, bench: Bench, told: Told, *, link: str, isolation: str, by_token: bool, until: float
    ) -> None:
        """by_token: it requires that the offsets which it has seen are committed."""
        self._bench, self._told, self._link = bench, told, link
        self._isolation, self._by_token, self._until = isolation, by_token, until
        self._world = bench.world
        self._next_offset = 0
        self._partition = ""
        self._number = 0
        self.values: list[str] = []
        self._world.after(0.3 + self._world.rng.random() * 0.3, self._next)

    def _next(self) -> None:
        rng, world = self._world.rng, self._world
        if world.now > self._until:
            return
        self._number += 1
        entry = self._entry()
        node = self._bench.node(entry)
        if not node.up:
            world.after(0.05, self._next)
            return
        origin = ("offset", self._next_offset)
        if rng.random() < 0.05:
            origin = rng.choice((("beginning", 0), ("end", rng.randrange(4)), ("time", 0)))
        event_of, stale = self._event(origin, world.now + rng.choice((-1.0, 0.1, 1.0)))
        number, wanted = self._number, self._next_offset
        self._bench.streamers[entry].request(
            event_of, lambda outcome: self._answered(number, entry, origin, wanted, stale, outcome)
        )
        world.after(2.0 + GRACE_S, self._give_up, number, node, node.life, world.now)

    def _entry(self) -> str:
        """Return the leader, if there is one, or any node."""
        if self._world.rng.random() < 0.6:
            leader = self._bench.document(self._link)
            if leader is not None and leader.leader:
                return leader.leader
        return self._world.rng.choice(list(self._bench.names))

    def _event(
        self, origin: tuple[str, int], deadline: float
    ) -> tuple[Callable[[int], FetchAsked], bool]:
        rng = self._world.rng
        token = self._next_offset - 1 if self._by_token else -1
        stale = self._isolation == "committed" and rng.random() < 0.5
        bytes_max = rng.choice((1, 500, 1 << 20))

        def event(request: int) -> FetchAsked:
            return FetchAsked(
                request, self._link, origin, self._isolation, bytes_max, deadline, token, stale
            )

        return event, stale

    def _answered(
        self,
        number: int,
        entry: str,
        origin: tuple[str, int],
        wanted: int,
        stale: bool,
        outcome: Outcome,
    ) -> None:
        if number != self._number:
            return
        self._number += 1
        if isinstance(outcome, Records):
            self._read(origin, wanted, outcome, is_leaders=not stale)
        elif isinstance(outcome, Problem):
            self._told.counters[f"fetch {outcome.code}"] += 1
            if outcome.code == "offset-evicted":
                self._evicted(int(str(outcome.more["next"])))
            elif outcome.code == "offset-out-of-range":
                self._out_of_range(entry, origin)
        self._world.after(0.01 + self._world.rng.random() * 0.1, self._next)

    def _incarnation(self, found: Records) -> str:
        """Return which partition of this link the answer is of; begin again in another one."""
        if not found.batches:
            return self._partition
        names = [
            name for name in self._bench.invariants.books if is_of(found.batches[0], place_of(name))
        ]
        if names[0] != self._partition:
            self._partition = names[0]
            self._next_offset = 0
        return names[0]

    def _read(
        self, origin: tuple[str, int], wanted: int, found: Records, *, is_leaders: bool
    ) -> None:
        self._told.counters["fetched"] += 1
        name = self._incarnation(found)
        if not found.batches and name != partition_name(self._link, found.incarnation):
            return  # The answer is of a deleted incarnation.
        if not found.batches and name != self._bench.name_of(self._link):
            return  # The next one exists meanwhile.
        invariants = self._bench.invariants
        book = invariants.books[name]
        old = self._world.now - self._bench.shape.tombstone_s + STAMPED_EARLY_S
        values = read(name, book, invariants.checked, found, self._isolation, old)
        if is_leaders:
            check_high(name, book, invariants.checked, found.epoch, found.high)
        is_same = self._partition == name and self._next_offset == wanted
        is_known = found.high != HIGH_NOT_KNOWN
        if self._by_token and is_same and is_known and found.high < wanted and not book.lost:
            raise Violation(f"RI9: {name} goes back to {found.high}, behind token {wanted - 1}")
        if origin == ("offset", self._next_offset):
            if found.offset != self._next_offset:
                raise Violation(f"RI9: {name} begins at {found.offset}, not {origin}")
            if self._isolation == "committed":
                self.values += values
                self._next_offset = found.until
            elif is_known:
                # Uncommitted records may be lost again.
                self._next_offset = min(found.until, found.high)

    def _evicted(self, start: int) -> None:
        """Continue at the start of the log, which is never above the committed records."""
        name = self._bench.name_of(self._link)
        book = self._bench.invariants.books[name]
        if start <= len(book.committed):
            self._next_offset = max(self._next_offset, start)
        elif book.unclean:
            return  # A deposed leader may answer with the start of a history that is void.
        elif name == self._partition and len(self._bench.incarnations(self._link)) == 1:
            raise Violation(f"RI20: {name} starts at {start}, above {len(book.committed)}")

    def _out_of_range(self, entry: str, origin: tuple[str, int]) -> None:
        """RI9: records seen as committed are in the log of every leader that was not replaced."""
        name = self._bench.name_of(self._link)
        if name != self._partition:
            self._next_offset = 0
            return
        streamer = self._bench.streamers[entry]
        leading = streamer.partitions.leader.leading.get(name)
        document = self._bench.document(self._link)
        book = self._bench.invariants.books[name]
        if leading is None or document is None or origin != ("offset", self._next_offset):
            return
        if document.epoch == leading.epoch and not book.unclean:
            raise Violation(f"RI9: {self._next_offset} of {name} is out of range at its leader")
        self._next_offset = 0 if book.unclean else self._next_offset

    def _give_up(self, number: int, node: Any, life: int, asked_at: float) -> None:
        if number != self._number:
            return
        steady = not node.paused and node.resumed_at < asked_at
        if node.up and node.life == life and steady:
            self._told.problems.append(f"a fetch of {self._link} had no answer by its deadline")
        self._next()


class Deleter:
    """Deletes the records of one partition up to some offset, now and then."""

    def __init__(self, bench: Bench, told: Told, *, link: str, until: float) -> None:
        self._bench, self._told, self._link, self._until = bench, told, link, until
        self._world = bench.world
        self._world.after(1.0, self._next)

    def _next(self) -> None:
        world, link = self._world, self._link
        if world.now > self._until:
            return
        found = self._bench.document(link)
        if found is not None and found.leader and self._bench.node(found.leader).up:
            name = self._led_by(found.leader)
            high = len(self._bench.invariants.books[name].committed)
            before = world.rng.choice((ALL_COMMITTED, world.rng.randint(0, high), high + 1))
            deadline = world.now + world.rng.choice((0.2, 2.0))
            self._bench.streamers[found.leader].request(
                lambda request: DeletionAsked(request, link, before, deadline),
                lambda outcome: self._answered(name, before, outcome),
            )
        world.after(0.5 + world.rng.random() * 2, self._next)

    def _led_by(self, node: str) -> str:
        """Return the incarnation that a node leads, which may not know of a newer one yet."""
        leading = self._bench.streamers[node].partitions.leader.leading
        led = [name for name in self._bench.incarnations(self._link) if name in leading]
        return next((name for name in led if leading[name].is_online), "") or self._bench.name_of(
            self._link
        )

    def _answered(self, name: str, before: int, outcome: Outcome) -> None:
        if isinstance(outcome, Problem):
            self._told.counters[f"delete {outcome.code}"] += 1
            return
        if not isinstance(outcome, Deleted) or outcome.start < before:
            raise Violation(f"RI22: a deletion up to {before} of {name} is answered by {outcome}")
        self._told.counters["deletions"] += 1
        self._bench.invariants.deleted(name, outcome.start)
