"""Actors that keep leases: holders of documents, and candidates for a turn."""

from collections.abc import Callable
from typing import Any

from docstore.model import json
from docstore.model.document import LEASE, Row
from docstore.model.operation import Answer, Conditions, Operation
from docstore.model.paths import partition_key
from docstore.ownership.by_store import Candidate as Entry
from docstore.ownership.by_store import Turns
from docstore.services.leases import LEASES, Behavior, LeasePhase, LeaseState, read_lease
from docstore.services.lock_queue import CAMPAIGNS, RESIGNS, state_of, turns_of
from docstore.sessions.holder import Holder, KeepAlive, Lapsed, LeaseLost, Regained
from tests.sim.actors import (
    Actor,
    Attached,
    KeepAlives,
    Query,
    Request,
    Sent,
    Submit,
    is_settled,
    result_of,
)
from tests.sim.clocks import RATE_ERROR
from tests.sim.sessions_shapes import Shape

AGAIN_S = 0.2
TURN_S = 20.0
"""Longest time that a node holds a call that waits for its turn."""
SPARE_MS = 1_000
"""How long before a node gives up the owner answers."""
QUIET_S = 5.0
"""How long after all is healed turns are still given up."""
LATE_MAX_S = 3.0
"""Greatest delay of a write that is late on purpose."""


class Tenant(Actor):
    """A process that keeps leases with the machine of `docstore/sessions/holder.py`."""

    def __init__(self, name: str, arena: Any, shape: Shape) -> None:
        super().__init__(name, arena)
        self.shape = shape
        self.ttl_s = shape.ttl_ms / 1000
        self.behavior = Behavior.DELETE
        self.prefix = ""
        """Prefix of the ids of its leases."""
        self.holder = Holder(RATE_ERROR)
        self._leases = 0
        self._plans = 0

    @property
    def window_s(self) -> float:
        """Return for how long a proof is valid."""
        return self.shape.window_s

    def granted(self, lease: str) -> None:
        """Begin the work under a new lease."""

    def ended(self, lease: str) -> None:
        """End the work under a lost lease."""

    def begin(self) -> None:
        """Begin with one lease."""
        self.holder = Holder(RATE_ERROR)
        self.create()

    def believes(self, lease: str) -> bool:
        """Say whether this process believes at this moment that it holds a lease."""
        return self.holder.holds(lease, self.clock.now())

    # Creating and releasing

    def create(self) -> None:
        """Create a lease under a new id, with retries until the outcome is known."""
        self._leases += 1
        self._post(f"{self.prefix}{self.name}.{self.life}.{self._leases}", None)

    def _post(self, lease: str, first: Sent | None) -> None:
        wanted = LeaseState(ttl_ms=self.shape.ttl_ms, behavior=self.behavior, holder=self.name)
        operation = Operation(verb="POST", link=f"{LEASES}/{lease}", body=json.dump(wanted.state()))
        # The owner counts from the first arrival: a later attempt proves nothing.
        self.ask(
            Submit(operation), lambda answer, sent: self._created(lease, first or sent, answer)
        )

    def _created(self, lease: str, first: Sent, answer: Answer | None) -> None:
        row = answer.row if answer is not None else None
        found = None if row is None or row.deleted else read_lease(row.state)
        if not is_settled(answer):
            self.later(AGAIN_S, self._post, lease, first)
        elif found is None or found.phase is not LeasePhase.ALIVE:
            self.create()
        else:
            self.holder.hold(lease, self.ttl_s, first.stamp, window_s=self.window_s)
            self.arena.watch.confirmed(f"{LEASES}/{lease}", self.ttl_s, first)
            self.granted(lease)
            self._pump()

    def release(self, lease: str) -> None:
        """Drop a lease, and send its release."""
        self.holder.release(lease)
        self.arena.watch.given_up(f"{LEASES}/{lease}")
        self._say_released(lease)
        self.ended(lease)

    def _say_released(self, lease: str) -> None:
        body = json.dump({"kind": "EndRequest", "why": "released", "endedMicros": 1})
        operation = Operation(verb="PATCH", link=f"{LEASES}/{lease}", body=body, media="handler")
        self.insist(operation, lambda answer: None)

    # Keeping

    def _pump(self) -> None:
        """Send what is due, and come back when more is due."""
        for each in self.holder.due(self.clock.now()):
            match each:
                case KeepAlive(leases):
                    self._keep(each, KeepAlives(leases, self.ttl_s * 0.4))
                case Lapsed() | Regained() | LeaseLost():
                    self._happened(each)
        self._plans += 1
        if self.holder.leases:
            self.at(self.holder.next_at(), self._go_on, self._plans)

    def _go_on(self, plan: int) -> None:
        if plan == self._plans:
            self._pump()

    def _keep(self, asked: KeepAlive, request: KeepAlives) -> None:
        self.ask(
            request,
            lambda said, sent: self._kept(asked, said, sent),
            link=f"{LEASES}/{asked.leases[0]}",
        )

    def _kept(self, asked: KeepAlive, said: Any, sent: Sent) -> None:
        alive, gone = said or ((), ())
        for lease in alive:
            if lease in self.holder.leases:
                self.arena.watch.confirmed(f"{LEASES}/{lease}", self.ttl_s, sent)
        for lease in gone:
            self.arena.watch.told_gone(f"{LEASES}/{lease}")
        happened = self.holder.answered(
            asked, stamp=sent.stamp, now=self.clock.now(), alive=alive, gone=gone
        )
        for each in happened:
            self._happened(each)
        self._pump()

    def _happened(self, each: Lapsed | Regained | LeaseLost) -> None:
        self.arena.watch.count(type(each).__name__.lower())
        if isinstance(each, LeaseLost):
            self.ended(each.lease)

    # Operations

    def insist(self, operation: Operation, then: Callable[[Answer], None]) -> None:
        """Submit an operation, with retries until its outcome is known."""
        self._insist(Submit(operation), then, lambda: False)

    def _insist(
        self, request: Request, then: Callable[[Answer], None], is_over: Callable[[], bool]
    ) -> None:
        def told(answer: Answer | None, sent: Sent) -> None:
            if is_settled(answer):
                assert answer is not None
                then(answer)
            else:
                self.later(AGAIN_S, self._insist, request, then, is_over)

        if not is_over():
            self.ask(request, told)


class Lessee(Tenant):
    """A process whose documents end with it: they are attached, then written, perhaps late."""

    def begin(self) -> None:
        """Keep two leases."""
        self.behavior = self.rng.choice(list(Behavior))
        super().begin()
        self.create()

    def granted(self, lease: str) -> None:
        """Attach documents, and after a while release the lease, or keep it."""
        self.later(self.rng.random() * 1.0, self._attach, lease)
        if self.rng.random() < 0.5:
            self.later(1.0 + self.rng.random() * 6.0, self._give_up, lease)

    def ended(self, lease: str) -> None:
        """Create another lease after a while."""
        self.later(self.rng.random(), self.create)

    def _give_up(self, lease: str) -> None:
        # Afterwards a lease must be held when the run ends.
        if lease in self.holder.leases and self.world.now < self.shape.faults_s + QUIET_S:
            self.release(lease)

    def _attach(self, lease: str) -> None:
        if lease not in self.holder.leases:
            return
        link = f"/a/{self.rng.randrange(self.shape.attached)}"
        state = json.dump({LEASE: f"{LEASES}/{lease}", "by": self.name})
        operation = Operation(verb="PUT", link=link, body=state, creates=True)
        late_s = self.rng.choice((0.0, self.rng.random() * LATE_MAX_S))
        self.ask(Attached(f"{LEASES}/{lease}", operation, late_s), lambda answer, sent: None)
        self.later(0.3 + self.rng.random() * 1.5, self._attach, lease)


class Candidate(Tenant):
    """A process that campaigns for an election or a lock, has its turn, and gives it up."""

    def __init__(self, name: str, arena: Any, shape: Shape, link: str) -> None:
        super().__init__(name, arena, shape)
        self.link = link
        self.path = link.rpartition("/")[0]
        self.prefix = f"{partition_key(link)}~" if shape.is_near else ""
        self.lease = ""
        self.token = 0
        """Token of its turn; 0 while it has none."""
        self.is_waiting = False
        self._quiet_at = shape.faults_s + QUIET_S
        self._asks = 0

    def begin(self) -> None:
        """Campaign, as soon as there is a lease."""
        self.lease, self.token, self.is_waiting = "", 0, False
        super().begin()

    @property
    def leads(self) -> bool:
        """Say whether this process believes at this moment that it has its turn."""
        return self.token > 0 and self.believes(self.lease)

    def beliefs(self) -> list[str]:
        """Return its turn, if it has one."""
        return [self.link] if self.leads else []

    def granted(self, lease: str) -> None:
        """Campaign under this lease."""
        self.lease = lease
        self._campaign(lease)

    def ended(self, lease: str) -> None:
        """Drop the turn with its lease, and create another lease."""
        self.lease, self.token, self.is_waiting = "", 0, False
        self.later(self.rng.random() * 0.5, self.create)

    # Campaigning

    def _is_over(self, lease: str) -> bool:
        return lease != self.lease

    def _campaign(self, lease: str) -> None:
        """Campaign once more, attached to the lease."""
        self._asks += 1
        self._queue(lease, self._asks)

    def _queue(self, lease: str, number: int) -> None:
        self.is_waiting = True
        asked = {
            "kind": CAMPAIGNS[self.path], **self._named(lease), "value": self.name,
            "number": number,
        }  # fmt: skip
        operation = Operation(verb="PATCH", link=self.link, body=json.dump(asked), media="handler")
        # Repeated until its outcome is known: else a late one makes an unaware holder.
        self._insist(
            Attached(f"{LEASES}/{lease}", operation),
            lambda answer: self._queued(lease, number, answer),
            lambda: self._is_over(lease),
        )

    def _queued(self, lease: str, number: int, answer: Answer) -> None:
        if answer.status == 404:
            empty = json.dump(state_of(Turns(grace_ms=self.shape.grace_ms)))
            absent = Conditions(none_match="*")
            made = Operation(
                verb="PUT", link=self.link, body=empty, conditions=absent, creates=True
            )
            self.insist(made, lambda answer: self._queue(lease, number))
        elif answer.is_success:
            self._placed(lease, answer.row)
        else:
            self.later(AGAIN_S, self._campaign, lease)

    def _placed(self, lease: str, row: Row | None) -> None:
        """Continue from a decided version: the turn is ours, or we wait, or are not queued."""
        if self._is_over(lease):
            return
        if row is not None:
            self.arena.watch.seen(lease, row)
        turns = Turns() if row is None or row.deleted else turns_of(json.load(row.state))
        place = turns.position(Entry(self.name, f"{LEASES}/{lease}"))
        if place is None:
            self.is_waiting = False
            self.later(AGAIN_S, self._campaign, lease)
        elif place == 0:
            self._won(lease, turns.token)
        else:
            assert row is not None
            asked = (self.name, f"{LEASES}/{lease}", SPARE_MS, row.version)
            query = Query(self.link, "turn", asked, TURN_S)
            self.ask(query, lambda reply, sent: self._woken(lease, reply), link=self.link)

    def _woken(self, lease: str, reply: Any) -> None:
        found = result_of(reply)
        if self._is_over(lease):
            return
        if found is None:
            self.later(AGAIN_S, self._look, lease)
        else:
            self._placed(lease, Row(*found) if found else None)

    def _look(self, lease: str) -> None:
        if not self._is_over(lease):
            self.insist(
                Operation(verb="GET", link=self.link), lambda now: self._placed(lease, now.row)
            )

    # The turn

    def _won(self, lease: str, token: int) -> None:
        self.token, self.is_waiting = token, False
        self.arena.watch.count("turns_won")
        self.later(self.rng.random() * 0.3, self._write, lease, token)
        if self.rng.random() < 0.8:
            self.later(0.2 + self.rng.random() * self.shape.turn_s, self._stop, lease, token)

    def _write(self, lease: str, token: int) -> None:
        """Write to the guarded document; the write may be late, and this process may be over."""
        if self.token != token or not self.leads:
            return
        link = f"/t/{self.rng.randrange(self.shape.guarded)}"
        state = json.dump({"by": self.name})
        scope = self.link.removeprefix("/core/")
        operation = Operation(verb="PUT", link=link, body=state, creates=True, fence=(scope, token))
        late_s = self.rng.choice((0.0, self.rng.random() * LATE_MAX_S))
        self.arena.write_late(operation, late_s)
        self.later(0.1 + self.rng.random() * 0.8, self._write, lease, token)

    def _stop(self, lease: str, token: int) -> None:
        """Resign, or give the turn to a waiter; the belief ends before the request is sent."""
        if self.token != token or self._is_over(lease) or self.world.now > self._quiet_at:
            return
        self.token = 0
        if self.rng.random() < 0.25:
            self.insist(
                Operation(verb="GET", link=self.link), lambda now: self._transfer(lease, token, now)
            )
        else:
            self._resign(lease, token)

    def _transfer(self, lease: str, token: int, now: Answer) -> None:
        row = now.row
        queue = () if row is None or row.deleted else turns_of(json.load(row.state)).queue
        if not queue:
            self._resign(lease, token)
            return
        to = self.rng.choice(queue).name
        self.arena.watch.may_transfer(self.link, to)
        asked = {"kind": "TransferRequest", "candidate": self.name, "token": token, "to": to}
        self._give_up(lease, token, asked)

    def _resign(self, lease: str, token: int) -> None:
        asked = {"kind": RESIGNS[self.path], "candidate": self.name, "token": token}
        self._give_up(lease, token, asked)

    def _give_up(self, lease: str, token: int, asked: dict[str, Any]) -> None:
        self.arena.watch.resigns(self.link, self.name, f"{LEASES}/{lease}")
        self._asks += 1
        numbered = json.dump(asked | {"number": self._asks})
        operation = Operation(verb="PATCH", link=self.link, body=numbered, media="handler")
        self.insist(operation, lambda answer: self._given_up(lease, token, answer))

    def _given_up(self, lease: str, token: int, answer: Answer) -> None:
        if answer.code == "not-queued":
            self._resign(lease, token)
        else:
            self.arena.watch.count("turns_given_up")
            self.later(self.rng.choice((0.0, 2.0)) * self.rng.random(), self._campaign, lease)

    def _named(self, lease: str) -> dict[str, str]:
        return {"candidate": self.name, "lease": f"{LEASES}/{lease}"}
