"""Test bench of sessions: nodes, their documents, and the actors that use them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from docstore.machines.view import MachineView
from docstore.model.document import Row
from docstore.model.operation import NOT_GIVEN, Answer, Operation
from docstore.model.paths import partition_key
from docstore.model.service import Service, ServiceOptions
from docstore.services.attachments import Attached as Remembered
from docstore.services.attachments import attach_request, has_ended
from docstore.services.declared import DeclaredService
from docstore.services.leases import LEASES
from docstore.services.lock_queue import gone_request
from docstore.services.registry import Registry
from docstore.sessions.core import Owners
from docstore.sessions.waiting import WaitingCall
from docstore.testing.simulation.world import World
from docstore.wire.sessions_messages import Reply
from tests.sim.actors import Actor, Attached, KeepAlives, Links, Query, Request, Submit
from tests.sim.hosts import Hosts
from tests.sim.invariants import Violation
from tests.sim.register import Register, RegisterView
from tests.sim.sessions_companion import Keeper
from tests.sim.sessions_invariants import SessionInvariants, is_of_turns
from tests.sim.sessions_shapes import Shape, config_of

DECLARED: Mapping[str, Service] = {
    path: DeclaredService(ServiceOptions(path=path, kind=path[1:])) for path in ("/a", "/t")
}
"""Documents that are attached to leases, and documents that are guarded by fences."""
BUILT_IN = Registry()
ENDED = Answer(410, "lease-ended")
UNDECIDED = Answer(504, "undecided", unknown=True)
WAITS_S = 0.25
"""Interval of the checks of waiting calls."""


def service_of(link: str) -> Service:
    """Return the service of a document."""
    found = BUILT_IN.service_for(link) or DECLARED.get(link.rpartition("/")[0])
    assert found is not None, link
    return found


class Bench:
    """Parts that are the same for any store of the documents."""

    nodes: Any
    """A `Hosts` or a `Cluster`."""

    def __init__(self, seed: int, shape: Shape) -> None:
        self.world = World(seed)
        self.shape = shape
        self.keepers: dict[str, Keeper] = {}
        self.watch = SessionInvariants(self.world)
        self.links: Links
        self.actors: list[Actor] = []
        self._attached: dict[tuple[str, int], Remembered] = {}
        """(node, life) -> its memory of the lists of leases."""
        self._overdue: dict[WaitingCall, float] = {}
        """Call that waits although its answer is known -> since when."""

    def ask(
        self, node: str, operation: Operation, timeout_s: float, told: Callable[[Answer], None]
    ) -> None:
        """Execute an operation of a node on a document."""
        raise NotImplementedError

    def _counted(self, told: Callable[[Answer], None]) -> Callable[[Answer], None]:
        """Count what must happen sometimes."""

        def tell(answer: Answer) -> None:
            self.watch.checked["other_reign"] += answer.code == "other-reign"
            self.watch.checked["fences_refused"] += answer.code == "fenced"
            told(answer)

        return tell

    def _begin(self) -> None:
        self.links = Links(self, list(self.nodes.names))
        weather = self.links.network.weather
        weather.loss, weather.straggle = self.shape.loss, self.shape.straggle
        self.world.after(WAITS_S, self._look_at_waits)

    def _look_at_waits(self) -> None:
        """SI9: no call waits long after its answer is known."""
        limit_s = 2 * self.shape.ask_timeout_s + 1.0
        overdue = set()
        for keeper in self.keepers.values():
            if keeper.node.up and not keeper.node.paused:
                overdue |= keeper.overdue()
        now = self.world.now
        self._overdue = {each: self._overdue.get(each, now) for each in overdue}
        for held, since in self._overdue.items():
            if now - since > limit_s:
                raise Violation(f"SI9: {held.served.sender} waits since {since:.3f}, and need not")
        self.world.after(WAITS_S, self._look_at_waits)

    def _join(
        self, process: Any, send: Callable[[str, int, str, Any], None], documents: Any
    ) -> None:
        """Give a node its sessions."""
        keeper = Keeper(process, self.world, config_of(self.shape), documents, send)
        self.keepers[process.name] = keeper
        process.companion = keeper

    # Requests of actors

    def is_up(self, node: str) -> bool:
        """Say whether a node's process runs."""
        return bool(self.keepers[node].node.up)

    def life_of(self, node: str) -> int:
        """Return which life of its process a node is in."""
        return self.keepers[node].node.life

    def serve(self, node: str, request: Request, answered: Callable[[Any], None]) -> None:
        """Execute an actor's request, once the node is not paused; see `docstore/http`."""
        keeper = self.keepers[node]
        if keeper.node.paused:
            life = keeper.node.life
            self.world.after(0.01, self._serve_later, node, life, request, answered)
            return
        match request:
            case Submit(operation, timeout_s):
                self.ask(node, operation, timeout_s, answered)
            case Query(link, kind, argument, timeout_s):
                keeper.call(link, kind, argument, timeout_s=timeout_s, answered=answered)
            case KeepAlives(ids, timeout_s):
                _Batch(keeper, ids, timeout_s, answered)
            case Attached():
                self._attach(node, request, answered)

    def _serve_later(
        self, node: str, life: int, request: Request, answered: Callable[[Any], None]
    ) -> None:
        if self.is_up(node) and self.life_of(node) == life:
            self.serve(node, request, answered)

    def _attach(self, node: str, request: Attached, answered: Callable[[Any], None]) -> None:
        """Update the lease, then the attached document, before one deadline; or both at once."""
        life, since = self.life_of(node), self.world.now
        lease, link = request.lease, request.operation.link
        if partition_key(lease) == partition_key(link):
            self._campaign_together(node, request, answered)
            return
        attached = self._attached.setdefault((node, life), self._remembering())
        if attached.allows(lease, link, request.timeout_s):
            self._campaign_beside(node, request, attached, answered)
            return

        def told(answer: Answer) -> None:
            left_s = since + request.timeout_s - self.world.now
            if self.life_of(node) != life or left_s <= 0.0:
                return
            if answer.is_success and is_of_turns(link):
                attached.note(lease, link, since)
            if answer.status in (404, 409, 410):
                answered(ENDED)
            elif not answer.is_success:
                answered(answer)
            elif request.late_s:
                self.write_late(request.operation, request.late_s)
            else:
                self.ask(node, request.operation, left_s, answered)

        self.ask(node, attach_request(lease, link), request.timeout_s, told)

    def _campaign_together(
        self, node: str, request: Attached, answered: Callable[[Any], None]
    ) -> None:
        """Campaign on condition that the lease lists the election; see `http/campaigns.py`."""
        life, until = self.life_of(node), self.world.now + request.timeout_s
        attach = attach_request(request.lease, request.operation.link)
        given = replace(request.operation, given=(request.lease, attach.body))

        def campaign() -> None:
            if self.life_of(node) == life and self.world.now < until:
                self.ask(node, given, until - self.world.now, queued)

        def queued(answer: Answer) -> None:
            if answer.code == NOT_GIVEN:
                self.ask(node, attach, until - self.world.now, told)
            else:
                self.watch.checked["together"] += 1
                answered(ENDED if answer.statuses and answer.status < 500 else answer)

        def told(answer: Answer) -> None:
            if answer.is_success:
                campaign()
            else:
                answered(ENDED if answer.status in (404, 409, 410) else answer)

        campaign()

    def _remembering(self) -> Remembered:
        """Return a memory of lists that lasts for as long as `passes_s` of the shapes allow."""
        return Remembered(lambda: self.world.now, remembered_s=3.0, late_s_max=5.0)

    def _campaign_beside(
        self,
        node: str,
        request: Attached,
        attached: Remembered,
        answered: Callable[[Any], None],
    ) -> None:
        """Update the lease and the queue at once; see `docstore/http/campaigns.py`."""
        life, since = self.life_of(node), self.world.now
        lease, link = request.lease, request.operation.link
        answers: dict[str, Answer] = {}

        def told(which: str, answer: Answer) -> None:
            answers[which] = answer
            if self.life_of(node) == life and len(answers) == 2:
                decide(answers["lease"], answers["queue"])

        def decide(found: Answer, answer: Answer) -> None:
            self.watch.checked["beside"] += 1
            may_be_queued = answer.is_success or answer.unknown
            if found.is_success:
                attached.note(lease, link, since)
                answered(answer)
                return
            attached.forget(lease, link)
            if may_be_queued and has_ended(found):
                gone = gone_request(link, lease)
                self.ask(node, gone, request.timeout_s, lambda _: answered(ENDED))
            elif may_be_queued and found.status >= 500:
                answered(UNDECIDED)
            else:
                answered(ENDED if found.status in (404, 409, 410) else found)

        self.ask(node, attach_request(lease, link), request.timeout_s, partial(told, "lease"))
        self.ask(node, request.operation, request.timeout_s, partial(told, "queue"))

    def write_late(self, operation: Operation, late_s: float) -> None:
        """Delay a write, which arrives even if its sender is gone."""
        self.world.after(late_s, self._write_late, operation)

    def _write_late(self, operation: Operation) -> None:
        up = [name for name in self.keepers if self.is_up(name)]
        if up:
            self.ask(self.world.rng.choice(up), operation, 1.0, lambda answer: None)


class _Batch:
    """Keep-alives of one request, until all are answered: those of one owner are one call."""

    def __init__(
        self, keeper: Keeper, ids: Sequence[str], timeout_s: float, answered: Callable[[Any], None]
    ) -> None:
        by_owner: dict[str, list[str]] = {}
        for each in ids:
            owner = keeper.sessions.core.view.owner_of(f"{LEASES}/{each}")
            by_owner.setdefault(owner, []).append(each)
        self._left = len(by_owner)
        self._answered = answered
        self._alive: set[str] = set()
        self._gone: set[str] = set()
        for theirs in by_owner.values():
            link = f"{LEASES}/{theirs[0]}"
            keeper.call(link, "keep-alive", theirs, timeout_s=timeout_s, answered=self._told)

    def _told(self, reply: Reply) -> None:
        if reply.status == 200:
            alive, ended, missing, _ = reply.result
            self._alive.update(alive)
            self._gone.update(ended, missing)
        self._left -= 1
        if not self._left:
            self._answered((self._alive, self._gone))


class RegisterBench(Bench):
    """Sessions on a register: fast, and with every answer that documents may give."""

    def __init__(self, seed: int, shape: Shape) -> None:
        super().__init__(seed, shape)
        self.nodes = self.hosts = Hosts(self.world, shape.size)
        self.register = SessionRegister(self.hosts, shape.slots)
        for host in self.hosts.processes.values():
            self._join(host, self.hosts.send, self)
        self.register.trouble = shape.trouble
        self.register.decided = self.watch.decided
        self.register.notice = lambda name, row: self.keepers[name].noticed(row)
        self.hosts.begin()
        self._begin()

    def ask(
        self, node: str, operation: Operation, timeout_s: float, told: Callable[[Answer], None]
    ) -> None:
        """Execute an operation of a node on a document."""
        self.register.ask(node, operation, timeout_s, self._counted(told))

    def confirm(
        self, node: str, links: Sequence[str], timeout_s: float, told: Callable[[Owners], None]
    ) -> None:
        """Read one document of each slot: the answer confirms its owner as well."""
        owners: dict[str, tuple[str, int]] = {}
        left = set(links)

        def answered(link: str, answer: Answer) -> None:
            left.discard(link)
            if answer.status in (200, 404):
                owners[link] = (answer.owner, answer.epoch)
            if not left:
                told(owners)

        for link in links:
            self.ask(node, Operation(verb="GET", link=link), timeout_s, partial(answered, link))

    def survey(self, node: str) -> Sequence[Row]:
        """Return the documents of a node's own slots."""
        return self.register.survey(node)

    def view(self, node: str) -> MachineView:
        """Return what a node knows of the group."""
        return RegisterView(node, self.hosts, self.register)

    def owner_of(self, link: str) -> str:
        """Return the owner of a document's slot."""
        return self.register.owners[self.register.slot_of(link)]

    def drain(self, name: str) -> None:
        """Let a node's slots move to others."""
        self.hosts.processes[name].is_draining = True

    def move(self, link: str, *, deluded_s: float) -> None:
        """Let another node own a document; the old owner does not hear of it for a while."""
        self.register.move(self.register.slot_of(link), deluded_s)

    def heal(self) -> None:
        """Answer every operation from now on, at once."""
        self.register.trouble = 0.0
        self.register.deluded.clear()


class SessionRegister(Register):
    """A register whose owner notices a decision before any client is answered, as a real one does.

    Sessions rely on that: one read answers for all documents of a slot (`confirming.py`).
    """

    def __init__(self, hosts: Hosts, slots: int) -> None:
        paths = ("/core/leases", "/core/elections", "/core/locks", "/core/roles", "/core/groups")
        super().__init__(hosts, slots, service_of, *paths)
        self.deluded: dict[str, float] = {}
        """Node -> until when it learns nothing of the owners."""

    def move(self, slot: int, deluded_s: float) -> None:
        """Let another node take a slot over, from one that may be well."""
        before = self.owners[slot]
        self.deluded[before] = self.world.now + deluded_s
        self._hand(slot, [name for name in self.able() if name != before])

    def _noticed(self, name: str, life: int, row: Row) -> None:
        """Let a node notice a row; an owner gets the newest version instead of a late older one.

        A term begins with all that was decided before it, in order (`decide.py`).
        """
        newest = self.newest(row.link)
        assert newest is not None
        super()._noticed(name, life, newest if self.owners[row.slot] == name else row)

    def _learn(self, name: str) -> None:
        if self.world.now >= self.deluded.get(name, 0.0):
            super()._learn(name)

    def _publish(self, row: Row) -> None:
        super()._publish(row)
        owner = self.hosts.processes[row.owner]
        if owner.up:
            self.notice(row.owner, row)
