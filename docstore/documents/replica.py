"""The machine: one replica of every slot that this node holds, and the entry of its clients.

`step(event, now)` returns the effects in the order in which they must be performed. It never waits,
reads no clock and draws random numbers only from the given generator, so that one thread can run a
whole cluster in virtual time. This file only dispatches; each rule has a file of its own, listed in
`docstore/documents/__init__.py`.
"""

from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import assert_never

from docstore.documents import events
from docstore.documents.catchup.catchup import CatchUp
from docstore.documents.clients import Inflight
from docstore.documents.core import Core
from docstore.documents.depose import depose
from docstore.documents.effects import Effect, Reconfigured
from docstore.documents.eventual.branch_expiry import BranchExpiry
from docstore.documents.eventual.execute import Executor
from docstore.documents.leadership.handover import HandingOver
from docstore.documents.leadership.liveness import Liveness
from docstore.documents.leadership.takeover import TakeOver
from docstore.documents.leadership.write_barrier import WriteBarrier
from docstore.documents.log import SlotLog
from docstore.documents.measures import Measures
from docstore.documents.membership import reconfigure
from docstore.documents.membership.register import Register
from docstore.documents.retention.trim import Forgetter, Trimmer
from docstore.documents.term import Term
from docstore.documents.timing import ReplicaConfig
from docstore.documents.write_path.confirm import Confirmer
from docstore.documents.write_path.decide import Decider
from docstore.documents.write_path.forward import Gateway, answered, arrived, bundles
from docstore.documents.write_path.learn import Acceptor
from docstore.documents.write_path.propose import Proposer
from docstore.documents.write_path.read_index import ReadIndex
from docstore.documents.write_path.serve import Owner
from docstore.machines.events import (
    DrainAsked,
    LinkLost,
    LinkMade,
    Persisted,
    QueriesAnswered,
    Received,
    Room,
    Tick,
    TurnEnded,
)
from docstore.model.service import ServiceFor
from docstore.ownership.configuration import Configuration, Registered, unpack_registered
from docstore.storage.store import Recovered
from docstore.wire import messages
from docstore.wire.messages import Following, Offering, RequestVersions, SendVersions, Spread


class Replica:
    """One node's part in every slot: replica, owner, candidate, and entry for its clients."""

    def __init__(  # Tests replace this.
        self,
        node_id: str,
        recovered: Recovered,
        *,
        service_for: ServiceFor,
        rng: Random,
        vote_rng: Random,
        config: ReplicaConfig | None = None,
        blocks: Callable[[int], bool] = lambda slot: False,
        measured: Collection[str] = frozenset(),
        now: float = 0.0,
    ) -> None:
        """blocks: whether the node still needs a slot's leavers. measured: see `measures.py`."""
        config = config or ReplicaConfig()
        self.core = core = Core(
            node_id, recovered, service_for=service_for, rng=rng, config=config, now=now
        )
        self.measures = Measures(measured)
        self.acceptor = Acceptor(core)
        self.catchup = CatchUp(core)
        self.confirmer = Confirmer(core)
        self.decider = Decider(core, self._opened)
        self.owner = Owner(core, self.decider, self.confirmer)
        self.read_index = ReadIndex(core, self.confirmer)
        self.proposer = Proposer(core, self.decider.offered, self.owner.past.stored)
        self.takeover = TakeOver(core, self.acceptor, self.decider, self.catchup)
        registered = _registered(recovered)
        self.register = Register(core, registered, vote_rng, use=self._use, blocks=blocks)
        self.executor = Executor(core, recovered)
        self.documents, self.spreader = self.executor.documents, self.executor.spreader
        self.liveness = Liveness(core, self.spreader, self.register.readiness.bitmap)
        self.handover = HandingOver(core, self.owner.opened)
        self.write_barrier = WriteBarrier(core, self.owner.opened)
        self.trimmer = Trimmer(core)
        self.branch_expiry = BranchExpiry(core, self.documents)
        self.forgetter = Forgetter(core, self.documents.operations)
        self.gateway = Gateway(core, self._serve, self.executor.executing_node)

    def step(self, event: events.Event, now: float) -> list[Effect]:
        """Handle `event` at `now` (monotonic seconds); return its effects in order."""
        core = self.core
        core.now = now
        self._dispatch(event)
        while core.answers or core.routes_changed or core.corrupted:
            self._pass_on()
        return core.outbox.take()

    @property
    def wants_turn(self) -> bool:
        """Say whether rows, messages or writes wait for TurnEnded."""
        core = self.core
        gathered = core.outbox.has_more or bool(core.logs.dirty)
        return gathered or self.gateway.has_more or self.confirmer.has_more

    def _dispatch(self, event: events.Event) -> None:
        match event:
            case Received(sender, message, configuration):
                self.liveness.heard(sender)
                self._arrived(sender, message, configuration)
            case events.Requested():
                self.gateway.request(event)
            case events.BatchRequested():
                self.gateway.request_batch(event)
            case TurnEnded():
                self._end_turn()
            case Persisted(token):
                self.core.outbox.persisted(token)
            case QueriesAnswered(answers):
                for token, result in answers:
                    self.core.outbox.answer_read(token, result)
            case Tick(wall_us):
                self._tick(wall_us)
            case events.ViewChanged(alive):
                self.core.peers.believed_alive = alive
                self.core.routes_changed = True
                self.takeover.consider()
            case LinkLost(peer):
                self.liveness.link_lost(peer)
                self.gateway.link_lost(peer)
                self.takeover.consider()
            case LinkMade(peer, protocol):
                self.liveness.link_made(peer, protocol)
                self.catchup.probe_anew(peer)
                self.spreader.link_made(peer)
            case events.ResyncAsked(slots):
                self.catchup.resync(slots)
            case events.CompactAsked(before_us):
                self.trimmer.ask(before_us)
            case events.PinsRead(pins):
                self.core.pins = pins
            case events.ChangeAsked(request, change):
                self.register.ask(request, change)
            case events.BarrierAsked(seconds):
                self.write_barrier.begin(seconds)
            case events.ReadIndexAsked():
                self.read_index.asked(event)
            case DrainAsked():
                self.core.draining_since, self.core.claims_changed = self.core.now, True
            case events.SlotCorrupted(slot):
                self.core.corrupted.add(slot)
            case events.DiskFilled() | Room():
                self._room_changed(event)
            case _:
                assert_never(event)

    def _arrived(self, sender: str, message: messages.ReplicaMessage, configuration: int) -> None:
        """Handle a message only if its sender uses the same configuration as this node."""
        match message:
            case (
                messages.RequestVote()
                | messages.Vote()
                | messages.Lead()
                | messages.Follow()
                | messages.Succeed()
                | messages.Configured()
            ):
                self.register.received(sender, message)
            case _ if self.is_current(configuration):
                if sender in self.core.peers:
                    self._receive(sender, message)
            case _ if configuration < self.core.configuration.id:
                self.register.notices.tell(sender)
            case _:
                self.core.counters["messages_of_later_configuration"] += 1

    def is_current(self, configuration: int) -> bool:  # Tests replace this.
        """Say whether a configuration is the one that this node counts by (M2)."""
        return configuration == self.core.configuration.id

    def _use(self, configuration: Configuration) -> None:  # Tests replace this.
        """Switch to a decided configuration."""
        core = self.core
        before = set(core.peers)
        reconfigure.use(core, configuration)
        for peer in sorted(before - core.peers.keys()):
            self.gateway.link_lost(peer)
        self.confirmer.expire()
        self.takeover.forget()
        self.spreader.reconfigured()
        for peer in sorted(before | core.peers.keys()):
            self.register.notices.tell(peer)

    def _receive(self, sender: str, message: messages.Replicating | messages.Spreading) -> None:
        match message:
            case messages.Propose():
                self.acceptor.propose(sender, message)
            case messages.Accepted() | messages.AcceptedAll():
                self.catchup.push_behind(sender, self.decider.acknowledged(sender, message))
            case messages.Confirm():
                self.confirmer.asked(sender, message)
            case messages.Confirmed():
                self.decider.refused(sender, messages.Refused(message.refused))
                self.confirmer.answered(sender, message)
            case messages.Forward():
                self._serve_forwarded(sender, message)
            case messages.Answered():
                self.gateway.received(message)
            case messages.Heartbeat():
                self.liveness.heartbeat(sender, message)
                self.register.readiness.heard(sender, message)
            case messages.Decide():
                self.acceptor.decide(sender, message)
            case messages.PreVote():
                self.takeover.vote(sender, message)
            case messages.PreVoted():
                self.takeover.voted(sender, message)
            case messages.Prepare():
                self.acceptor.prepare(sender, message)
            case messages.Promised():
                self.takeover.promised(sender, message)
            case messages.Refused():
                self.decider.refused(sender, message)
            case messages.ReplicatedTo():
                self.trimmer.passed(sender, message)
            case messages.Release():
                self.confirmer.released(sender, message)
            case messages.HandOver():
                self.takeover.handed(sender, message)
            case messages.Fetch():
                self.takeover.fetch(sender, message)
            case messages.Fetched():
                self.takeover.fetched(sender, message)
            case messages.Gap():
                self.catchup.gap(sender, message)
            case messages.Adopt():
                self.acceptor.adopt(sender, message)
            case messages.Copy():
                self.acceptor.copy(sender, message)
            case Offering() | Following() | Spread() | RequestVersions() | SendVersions():
                self.spreader.received(sender, message)
            case _:
                assert_never(message)

    # Operations

    def _serve_forwarded(self, sender: str, message: messages.Forward) -> None:
        operations = [arrived(self.core, sender, each) for each in message.operations]
        with self.core.outbox.reading_together():
            for bundle in bundles(operations):
                self._serve(bundle)

    def _serve(self, bundle: Sequence[Inflight]) -> None:
        """Execute a bundle: as the owner at level 3, by the executor at levels 1 and 2."""
        if self.measures.factories:
            for inflight in bundle:
                self.measures.arrived(inflight, self.core.now)
        if bundle[0].operation.level == 3:
            self.owner.serve(bundle)
        else:
            for inflight in bundle:
                self.executor.serve(inflight)

    def _pass_on(self) -> None:
        """Hand answers to their entry nodes, and route operations without an owner again."""
        core = self.core
        answers, core.answers = core.answers, {}
        for entry, items in answers.items():
            if self.measures.factories:
                self.measures.answered(items, core.now, core.wall_now_us())
            if entry == core.me:
                for inflight, answer, proposed in items:
                    if inflight.boot == core.boot:
                        self.gateway.answered(
                            inflight.seq, inflight.attempt, answer, proposed=proposed
                        )
            else:
                for message in answered(items):
                    core.outbox.send(entry, message)
        if core.routes_changed:
            core.routes_changed = False
            self.gateway.reroute()
        corrupted, core.corrupted = core.corrupted, set()
        for slot in corrupted & core.logs.keys():
            self.acceptor.mark_faulty(core.logs[slot], f"slot {slot}: a checksum does not match")

    # Turns and ticks

    def _end_turn(self) -> None:
        core = self.core
        for _ in range(8):
            self.proposer.propose_all()
            self.confirmer.start_round()
            self.gateway.flush()
            core.outbox.flush()
            if not self.wants_turn:
                return

    def _tick(self, wall_us: int) -> None:
        core = self.core
        tick_s = core.now - core.clock.ticked_at
        core.tick(wall_us)
        self.liveness.watch_quorum()
        self.register.tick()
        self.takeover.expire()
        self.takeover.consider()
        self.decider.tick()
        self.handover.tick()
        self.write_barrier.tick()
        self.liveness.beat()
        self.handover.tell()
        self.confirmer.resend()
        self.confirmer.expire()
        self.gateway.expire(min(tick_s, 0.1))
        self.gateway.reroute()
        self.trimmer.tick()
        self.spreader.tick()
        self.executor.tick()
        self.branch_expiry.tick()
        self.forgetter.tick()
        self.catchup.tick()

    def _opened(self, log: SlotLog, term: Term) -> None:
        core = self.core
        core.counters["opened"] += 1
        term.opened_as = core.counters["opened"]
        core.claims_changed = core.routes_changed = True
        self.takeover.opened()
        self.owner.opened(log, term)

    def _room_changed(self, event: events.DiskFilled | Room) -> None:
        if isinstance(event, Room):
            self.core.has_room, self.core.claims_changed = event.has_room, True
        else:
            self._disk_filled(event.recovered)

    def _disk_filled(self, recovered: Recovered) -> None:
        """Reload from disk: terms end as after a crash, but no client's request is dropped."""
        core = self.core
        for log in core.logs.values():
            depose(core, log)
        before = core.configuration.id
        core.reset(recovered)
        self.executor.reset(recovered)
        self.register.restarted(_registered(recovered))
        if core.configuration.id != before:
            core.outbox.emit(Reconfigured(core.configuration))
        core.unfit_until = core.now + core.config.leadership.unfit_s
        core.counters["disk_filled"] += 1
        self.gateway.restarted()


def _registered(recovered: Recovered) -> Registered:
    assert recovered.configuration is not None
    return unpack_registered(recovered.configuration)
