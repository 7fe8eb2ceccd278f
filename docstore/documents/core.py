"""State that all steps share: the time, the group, and the parts in files of their own.

This file has the liveness of members as this node sees it, and returns operations to their entry
nodes.
"""

import hashlib
from collections import Counter
from math import inf
from random import Random

from docstore.documents.clients import Inflight
from docstore.documents.clock import WallClock
from docstore.documents.leadership.leases import Leases
from docstore.documents.log import SlotLog
from docstore.documents.logs import Logs
from docstore.documents.operations import Closed, Proposed
from docstore.documents.outbox import Outbox
from docstore.documents.peers import NEVER, Peers
from docstore.documents.retention.pins import Pins
from docstore.documents.timing import ReplicaConfig
from docstore.model.fences import is_of_the_store
from docstore.model.operation import Answer, Operation
from docstore.model.service import WITHOUT_AUTHOR, Service, ServiceFor
from docstore.model.slots import slot_of
from docstore.ownership.by_hash import Placement
from docstore.ownership.configuration import Configuration, unpack_registered
from docstore.ownership.quorum import is_quorum
from docstore.storage.store import Recovered


def start_of(recovered: Recovered) -> int:
    """Return a number that no other start of this node has, on this disk or on one before it.

    A new disk counts its starts from one again, and operations of the old disk's starts are still
    in the logs: the same number would take a new operation for an old one (rule C1).
    """
    disk = int.from_bytes(hashlib.sha256(recovered.store_id.encode()).digest()[:4], "big")
    return (disk + recovered.boot) & 0x7FFF_FFFF


class Core:
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
        self.boot = start_of(recovered)  # Identifies this process in its operations' identities.
        self.proposed, self.closed = Proposed(), Closed()
        self.service_for = service_for
        self.rng = rng
        self.config = config
        self.now = now
        self.started_at = now
        self.clock = WallClock(config.clock_ahead_us_max, now)
        self.configuration: Configuration
        self.placement: Placement
        self.peers, self.logs = Peers(now), Logs()
        self.outbox = Outbox(self.peers, self.logs)
        self.leases = Leases(config.leadership.lease_s, now)
        self.pins: Pins | None = None  # Retention pins; None: nothing is pinned.
        self.routes_changed = self.claims_changed = False
        self.unfit_until = NEVER
        self.has_room = True
        """Whether the disk has room for rows. Promises are stored even without room."""
        self.draining_since = inf
        """Time at which this node was asked to drain (give all slots away); inf if never."""
        self.corrupted: set[int] = set()
        """Slots with a bad checksum, to be marked faulty at the end of the step."""
        self.counters: Counter[str] = Counter()
        self.answers: dict[str, list[tuple[Inflight, Answer | None, bool]]] = {}
        """Entry node -> answers of this step: (operation, answer, whether it was proposed here)."""
        self._load(recovered)

    def reset(self, recovered: Recovered) -> None:
        """Reload all state from disk; every term of this node is over."""
        self._load(recovered)
        self.outbox.reset()

    def _load(self, recovered: Recovered) -> None:
        assert recovered.configuration is not None
        self.take_members(unpack_registered(recovered.configuration).decided)
        self.logs.reset(self.me, self.placement, recovered.slots)

    def take_members(self, configuration: Configuration) -> None:
        """Use a configuration from now on; keep the state of the peers that stay."""
        self.configuration = configuration
        self.placement = configuration.placement()
        others = [each for each in configuration.names if each != self.me]
        self.peers.become(others, self.now)
        self.peers.count = not is_quorum([self.me], configuration.sets)

    def service_of(self, operation: Operation, since: int) -> Service | None:
        """Return the service that executes an operation; see ServiceFor (rule D5)."""
        if is_of_the_store(operation.fence):
            return WITHOUT_AUTHOR[operation.level]
        return self.service_for(operation.link, since)

    # Members

    def is_alive(self, member: str) -> bool:
        """Say whether a member seems alive. Use it to decide what to try, never to count votes."""
        if member == self.me:
            return True
        peer = self.peers[member]
        heard = self.now - peer.heard_at <= self.config.leadership.owner_timeout_s
        believed = self.peers.believed_alive
        return heard and (believed is None or member in believed)

    def may_own(self, member: str) -> bool:
        if member == self.me:
            return self.now >= self.unfit_until and not self.should_yield
        return self.is_alive(member) and self.peers[member].fit

    @property
    def ownership_changes(self) -> int:
        """Return the count of ownership changes that this node has seen.

        Timers cache results about slots until this count changes.
        """
        return self.peers.changes + self.logs.changes

    def slot_of(self, link: str) -> int:
        return slot_of(link, self.placement.slots)

    @property
    def is_draining(self) -> bool:
        return self.draining_since < inf

    @property
    def should_yield(self) -> bool:
        """Say whether this node should own no slot that another node can own (rule O7)."""
        return self.is_draining or not self.has_room

    @property
    def has_leases(self) -> bool:
        return self.configuration.reads == "lease"

    def is_leased(self, slot: int, candidate: str) -> bool:  # Tests replace this.
        return self.has_leases and self.leases.keeps_from(slot, candidate, self.now)

    def lacks_quorum(self) -> bool:
        """Say whether a majority of the members has been silent for too long (rule O6).

        A group of one never lacks it: it hears no others, and its own slow ticks prove nothing.
        """
        return (
            self.peers.count
            and self.now - self.peers.quorum_heard_at > self.config.leadership.quorum_grace_s
        )

    def tick(self, wall_us: int) -> None:
        others = {
            name: peer.clock_us for name, peer in self.peers.items() if peer.clock_us is not None
        }
        self.clock.set(wall_us, self.now, self.me, others, self.configuration.sets)

    def wall_now_us(self) -> int:
        """Return the timestamp for a row: the wall clock, kept near the other members' clocks."""
        return self.clock.now_us(self.now)

    def past_us(self) -> int:  # Tests replace this.
        """Return an instant that is certainly past; only older data may expire (rule D6)."""
        return self.clock.past_us(self.now)

    # Handled at the end of a step

    def reply(self, inflight: Inflight, answer: Answer | None, *, proposed: bool = False) -> None:
        """Hand an operation back to its entry node, at the end of this step.

        answer: None if this node does not own the slot. proposed: the operation may still take
        effect, so the entry node must not report a failure to its client.
        """
        operation = inflight.operation
        has_failed = answer is None or not answer.is_success
        if has_failed and not proposed and operation.level == 3 and not operation.is_read:
            origin = (inflight.entry, inflight.boot)
            # This may be a duplicate of a proposed operation whose answer was lost.
            proposed = answer is None and self.proposed.has(origin, inflight.seq)
            if not proposed:
                # Final: no later duplicate of this attempt may be applied here.
                self.closed.note(origin, inflight.seq, inflight.attempt, inflight.oldest)
        self.answers.setdefault(inflight.entry, []).append((inflight, answer, proposed))

    def corrupt(self, log: SlotLog) -> None:
        """Note that a record of the slot failed its checksum, so the replica abstains (rule P5)."""
        self.corrupted.add(log.slot)
