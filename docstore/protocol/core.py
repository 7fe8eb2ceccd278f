"""What all steps share: the logs, the peers, and the way out.

Effects leave in order through `emit`. Everything that speaks of this node's own disk goes
through `when_durable` or `accept`, and leaves only when the batch that forms now has come back
as Persisted: that one rule (P3) is kept here, so that no step can forget it.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf
from random import Random

from docstore.model.document import Ballot, Row
from docstore.model.operation import Answer
from docstore.model.service import ServiceFor
from docstore.ownership.by_hash import Placement
from docstore.protocol.clock import WallClock
from docstore.protocol.effects import Effect, Persist, Publish, Read, Send
from docstore.protocol.group.configuration import Configuration, unpack_registered
from docstore.protocol.history.holds import Holds
from docstore.protocol.leadership.leases import Leases
from docstore.protocol.log import SlotLog, log_from_disk
from docstore.protocol.operations import Closed, Proposed
from docstore.protocol.published import is_published
from docstore.protocol.quorum import is_quorum
from docstore.protocol.reign import Inflight, Phase, Reign
from docstore.protocol.slots import slot_of
from docstore.protocol.timing import ReplicaConfig
from docstore.storage.store import Append, Query, Recovered, Result, SaveSlot, Write
from docstore.wire import Accepted, ReplicaMessage

NEVER = float("-inf")


@dataclass(slots=True)
class Peer:
    """Another member, as its link shows it."""

    heard_at: float = NEVER
    """When it was last heard on a connection that still stands."""
    last_word_at: float = NEVER
    """When it was last heard at all; at first, when it came to our notice."""
    here_since: float = NEVER
    """Since when it has been heard without a gap."""
    linked: bool = False
    fit: bool = True
    faulty: frozenset[int] = frozenset()
    """Slots whose log it cannot vouch for: it does not try for them."""
    claims: tuple[tuple[int, bytes], ...] = ()
    clock_us: int | None = None
    """Its wall clock when our monotonic one was at 0, as of when it was last heard."""
    arrived: int | None = None
    """Versions at levels 1 and 2 on its disk; None until it has said so on this link."""


@dataclass(slots=True)
class Batch:
    """What one turn wants stored, and what may be said once it is."""

    token: int
    writes: list[Write] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    saved: dict[int, SlotLog] = field(default_factory=dict)
    ends: list[tuple[SlotLog, int, int]] = field(default_factory=list)
    accepted: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    then: list[Callable[[], None]] = field(default_factory=list)


def start_of(recovered: Recovered) -> int:
    """Return a number that no other start of this node has, on this disk or on one before it.

    A new disk counts its starts from one again, and operations of the old disk's starts are still
    in the logs: the same number would take a new operation for an old one (rule C1).
    """
    disk = int.from_bytes(hashlib.sha256(recovered.store_id.encode()).digest()[:4], "big")
    return (disk + recovered.boot) & 0x7FFF_FFFF


class Core:
    """The shared state of one replica. Steps are written around it; see `replica.py`."""

    def __init__(
        self,
        me: str,
        recovered: Recovered,
        *,
        service_for: ServiceFor,
        rng: Random,
        config: ReplicaConfig,
        now: float,
    ) -> None:
        self.me = me
        self.boot = start_of(recovered)  # Names this process in its operations' identities.
        self.proposed, self.closed = Proposed(), Closed()
        self.service_for = service_for
        self.rng = rng
        self.config = config
        self.now = now
        self.started_at = now
        self.clock = WallClock(config.clock_ahead_us_max)
        self.ticked_at = now
        self.configuration: Configuration
        self.placement: Placement
        self.peers: dict[str, Peer] = {}  # The others, those that leave and that come included.
        self.links: dict[str, int] = {}  # Node, member or not -> protocol of the link to it.
        self.believed_alive: frozenset[str] | None = None
        self.claims: dict[int, tuple[int, str]] = {}
        """slot -> (epoch, member) that says it holds the slot."""
        self.leases = Leases(config.leadership.lease_s, now)
        self.holds: Holds | None = None  # What named snapshots need; None: there are none.
        self.routes_changed = self.claims_changed = False
        self.ownership_changes = 0  # What timers found out about slots holds until it grows.
        self.unfit_until = NEVER
        self.draining_since = inf  # When it was asked to give all slots away, for good.
        self.quorum_heard_at = now
        self.dirty: set[int] = set()
        """Slots with rows that are not proposed yet."""
        self.newly_decided: set[int] = set()
        """Owned slots whose replicas have not been told how far they are decided."""
        self.corrupted: set[int] = set()
        """Slots in which a read met a bad checksum, to be marked faulty at the end of the step."""
        self.out: list[Effect] = []
        self.counters: Counter[str] = Counter()
        self.answers: dict[str, list[tuple[Inflight, Answer | None, bool]]] = {}
        """Entry node -> (operation, answer, whether it was proposed here) to hand back."""
        self._reads: dict[int, Callable[[Result], None]] = {}
        self._tokens = 0
        self.logs: dict[int, SlotLog] = {}
        self.former: dict[int, Ballot] = {}
        """What was promised about slots that have left this node."""
        self.reset(recovered)

    def reset(self, recovered: Recovered) -> None:
        """Begin again from what is on disk; every reign of ours is over."""
        assert recovered.configuration is not None
        self.take_members(unpack_registered(recovered.configuration).decided)
        self.logs = {
            slot: log_from_disk(slot, self.placement, recovered.slots.get(slot))
            for slot in self.placement.held_by(self.me)
        }
        self._reigns: list[tuple[SlotLog, Reign]] | None = None  # None: not known any more.
        self.former = {
            slot: found.record.promised
            for slot, found in recovered.slots.items()
            if slot not in self.logs
        }
        self.epoch_seen = max((log.promised[0] for log in self.logs.values()), default=0)
        self.batch = Batch(self._next_token())
        self.unfinished: deque[Batch] = deque()
        self._reads.clear()
        self.dirty.clear()
        self.newly_decided.clear()

    # The group

    def take_members(self, configuration: Configuration) -> None:
        """Count by a configuration from now on; what is known of members that stay is kept."""
        self.configuration = configuration
        self.placement = configuration.placement()
        self._suffices_alone = is_quorum([self.me], configuration.sets)
        before, self.peers = self.peers, {}
        for member in configuration.names:
            if member != self.me:
                self.peers[member] = before.get(member) or Peer(
                    linked=member in self.links, last_word_at=self.now
                )
        # What they claimed is over, or will be heard again.
        self.claims.clear()
        self.ownership_changes += 1
        for peer in self.peers.values():
            peer.claims = ()

    # What others are

    def is_alive(self, member: str) -> bool:
        """Say whether a member is alive for the purpose of trying; never of counting."""
        if member == self.me:
            return True
        peer = self.peers[member]
        heard = self.now - peer.heard_at <= self.config.leadership.owner_timeout_s
        return heard and (self.believed_alive is None or member in self.believed_alive)

    def may_own(self, member: str) -> bool:
        """Say whether a member is alive and has not just yielded."""
        if member == self.me:
            return self.now >= self.unfit_until and not self.is_draining
        return self.is_alive(member) and self.peers[member].fit

    def first_alive(self, slot: int) -> str | None:
        """Return the member that should own the slot, None if nobody can.

        The first in order of preference that is alive and fit; if none is fit, that is alive.
        """
        unfit = None
        for member in self.placement.replicas(slot):
            if self.is_alive(member) and not self._is_faulty(member, slot):
                if self.may_own(member):
                    return member
                unfit = unfit or member
        return unfit

    def _is_faulty(self, member: str, slot: int) -> bool:
        if member == self.me:
            log = self.logs.get(slot)
            return log is not None and not log.full
        return slot in self.peers[member].faulty

    def claimant(self, slot: int) -> str | None:
        """Return the live member that says it holds the slot, if there is one."""
        claim = self.claims.get(slot)
        return claim[1] if claim and self.is_alive(claim[1]) else None

    def owner_of(self, slot: int) -> str | None:
        """Return whom to ask about a slot: who holds it, else who should, else nobody."""
        log = self.logs.get(slot)
        if log and log.reign and log.reign.phase is Phase.OPEN:
            return self.me
        holder = self.claimant(slot)
        return holder or self.first_alive(slot)

    def reigns(self) -> list[tuple[SlotLog, Reign]]:
        """Return the slots that this node owns or tries to; every timer asks, at every tick."""
        if self._reigns is None:
            self._reigns = [(log, log.reign) for log in self.logs.values() if log.reign]
        return self._reigns

    def set_reign(self, log: SlotLog, reign: Reign | None) -> None:
        """Begin a reign over a slot, or end it."""
        log.reign, self._reigns = reign, None
        self.ownership_changes += 1

    def slot_of(self, link: str) -> int:
        """Return the slot of a link."""
        return slot_of(link, self.placement.slots)

    @property
    def is_draining(self) -> bool:
        """Say whether this node gives all away, and takes no more."""
        return self.draining_since < inf

    @property
    def has_leases(self) -> bool:
        """Say whether owners of this group read by lease."""
        return self.configuration.reads == "lease"

    def is_leased(self, slot: int, candidate: str) -> bool:  # Seam.
        """Say whether a slot must not be promised to a candidate yet (rule R2)."""
        return self.has_leases and self.leases.keeps_from(slot, candidate, self.now)

    def lacks_quorum(self) -> bool:
        """Say whether a majority of the members has been silent for too long (rule O6).

        A group of one has nobody to listen to: that it was slow itself proves nothing.
        """
        return (
            not self._suffices_alone
            and self.now - self.quorum_heard_at > self.config.leadership.quorum_grace_s
        )

    def tick(self, wall_us: int) -> None:
        """Learn what the wall clock shows now."""
        heard = [peer.clock_us for name, peer in self.peers.items() if self.is_alive(name)]
        self.clock.set(wall_us, self.now, [clock for clock in heard if clock is not None])
        self.ticked_at = self.now

    def wall_now_us(self) -> int:
        """Return the wall clock, held back if it is wrong."""
        return self.clock.now_us(self.now)

    # The way out

    def reply(self, inflight: Inflight, answer: Answer | None, *, proposed: bool = False) -> None:
        """Hand an operation back to its entry node, at the end of this step.

        answer: None means "not mine"; `proposed` then says whether it may take effect all the
        same, so that the entry node knows what it may tell its client.
        """
        updates = inflight.operation.level == 3 and not inflight.operation.is_read
        if updates and not proposed and (answer is None or not answer.is_success):
            origin = (inflight.entry, inflight.boot)
            # This may be an echo of what was proposed, and whose answer has been lost.
            proposed = answer is None and self.proposed.has(origin, inflight.seq)
            if not proposed:
                # Given back is given back: no echo of this attempt may be applied here later.
                self.closed.note(origin, inflight.seq, inflight.attempt, inflight.oldest)
        self.answers.setdefault(inflight.entry, []).append((inflight, answer, proposed))

    def emit(self, effect: Effect) -> None:
        """Let an effect leave, after all before it."""
        self.out.append(effect)

    def send(self, to: str, message: ReplicaMessage) -> None:
        """Send to a member whose link stands; otherwise the timers repair."""
        peer = self.peers.get(to)
        if peer is not None and peer.linked:
            self.out.append(Send(to, message))

    def send_any(self, to: str, message: ReplicaMessage) -> None:
        """Send to a node that need not be a member of ours, if a connection stands."""
        if to in self.links:
            self.out.append(Send(to, message))

    def read(self, query: Query, then: Callable[[Result], None]) -> None:
        """Ask the disk; `then` runs with what is committed there."""
        token = self._next_token()
        self._reads[token] = then
        self.out.append(Read(token, query))

    def corrupt(self, log: SlotLog) -> None:
        """A record of the slot failed its checksum: abstain, and say so (rule P5)."""
        self.corrupted.add(log.slot)

    def publish(self, log: SlotLog, after: int, until: int) -> None:
        """Tell the node of rows (after, until] that concern it."""
        for n in range(after + 1, until + 1):
            row = log.pending.get(n)
            if row is not None and is_published(row.link):
                self.out.append(Publish(row))

    def answer_read(self, token: int, result: Result) -> None:
        """Run what waits for a read; one from before a reset has nobody waiting."""
        then = self._reads.pop(token, None)
        if then is not None:
            then(result)

    def store_rows(self, log: SlotLog, rows: Iterable[Row]) -> None:
        """Put rows that have joined the log into the batch."""
        self.batch.rows.extend(rows)
        self.batch.ends.append((log, log.cuts, log.end))

    def store(self, write: Write) -> None:
        """Put another write into the batch, after the rows that came before it."""
        self._flush_rows()
        self.batch.writes.append(write)

    def save(self, log: SlotLog) -> None:
        """Put the slot's record into the batch, as it is when the turn ends."""
        self.batch.saved[log.slot] = log

    def when_durable(self, then: Callable[[], None]) -> None:  # Seam.
        """Run `then` when all that this turn stores is durable."""
        self.batch.then.append(then)

    def accept(self, owner: str, log: SlotLog, epoch: int) -> None:
        """Tell the owner, when it is durable, that the log reaches as far as it does now."""
        self.batch.accepted.setdefault(owner, []).append((log.slot, epoch, log.end))

    def flush(self) -> None:  # Seam.
        """End the turn: one Persist for all that gathered."""
        self._flush_rows()
        batch = self.batch
        batch.writes.extend(SaveSlot(log.record()) for log in batch.saved.values())
        speaks = batch.accepted or batch.then or batch.ends
        if batch.writes:
            self.out.append(Persist(batch.token, batch.writes))
        elif not speaks:
            return
        self.unfinished.append(batch)
        self.batch = Batch(self._next_token())
        if len(self.unfinished) == 1 and not batch.writes:
            self.persisted(batch.token)

    @property
    def has_more(self) -> bool:
        """Say whether something gathered that only the end of a turn lets out."""
        batch = self.batch
        gathered = batch.writes or batch.rows or batch.saved or batch.accepted or batch.then
        return bool(gathered or self.dirty)

    def persisted(self, token: int) -> None:
        """Say what waited for the batches up to `token`, and for those that wrote nothing."""
        while self.unfinished:
            batch = self.unfinished[0]
            if batch.token > token and batch.writes:
                return
            self.unfinished.popleft()
            self._release(batch)

    def _release(self, batch: Batch) -> None:
        for log, cuts, end in batch.ends:
            if log.cuts == cuts and log is self.logs.get(log.slot):
                log.durable = max(log.durable, end)
                log.drop_stored()
        for owner, slots in batch.accepted.items():
            self.send(owner, Accepted(slots))
        for then in batch.then:
            then()

    def _flush_rows(self) -> None:
        if self.batch.rows:
            self.batch.writes.append(Append(self.batch.rows))
            self.batch.rows = []

    def _next_token(self) -> int:
        self._tokens += 1
        return self._tokens
