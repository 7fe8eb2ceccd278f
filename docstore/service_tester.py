"""Runs services in a test, without nodes and on a clock of its own.

    from docstore.service_tester import ServiceTester

    def test_a_reservation_expires():
        tester = ServiceTester(Reservations())
        made = tester.post("/reservations", {"seat": 7})
        tester.run(600)
        assert tester.get(made.link)["state"] == "expired"

A request takes no time. `run` lets time pass: timers fire, effects are delivered, documents expire.
The handlers run as on the owner of their documents, by the same code, and so do timers and effects.
An exception of a handler is raised to the test.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, cast

from docstore.agendas.effects import AgendaEffect, GiveUp, Post
from docstore.agendas.events import AgendaEvent, Posted
from docstore.agendas.machine import Agendas
from docstore.documents.write_path.handle import New, Refused, handle
from docstore.machines.effects import Ask, Survey
from docstore.machines.events import Noticed, OperationAnswered, Surveyed, Tick
from docstore.machines.view import MachineView
from docstore.model import json
from docstore.model.agenda import RECORD, Timer, agenda_of, has_agenda, packed_agenda
from docstore.model.document import Row, expiry_us
from docstore.model.fences import OF_THE_STORE
from docstore.model.identity import OperationIdentity
from docstore.model.operation import Answer, Operation
from docstore.model.service import WITHOUT_AUTHOR, Method, Refusal, State
from docstore.model.service import Service as Served
from docstore.service import STATUSES, Service
from docstore.service import Refused as RefusedByService
from docstore.services.authored import AuthoredService, declaration_of
from docstore.services.declared import options_of
from docstore.testing.simulation.world import World

__all__ = ["Called", "EffectRefused", "Made", "ServiceTester"]

NEW_YEAR_US = 1_767_225_600_000_000
"""The time when a test begins, the first of January 2026."""
TICK_S = 0.05
DELIVERY_S = 0.001


class Made(NamedTuple):
    """The version that a request has made, or left as it was."""

    link: str
    version: int
    state: State


class Called(NamedTuple):
    """A webhook that was delivered."""

    url: str
    body: Any


class EffectRefused(AssertionError):
    """An effect was refused for good: on nodes it would be logged and given up."""


class _Documents:
    """The documents of some services, at their owner."""

    def __init__(self, now_us: Callable[[], int], notice: Callable[[Row], None]) -> None:
        """notice: called with each new version that has an agenda."""
        self.services: dict[str, Served] = {}
        self.rows: dict[str, list[Row]] = {}
        self.raised: BaseException | None = None
        """The exception that a handler raised, until the test gets it."""
        self.epoch = 0
        self._keys: dict[tuple[str, str], Row | None] = {}
        self._now_us = now_us
        self._notice = notice

    def raise_again(self) -> None:
        """Raise what a handler has raised, if any."""
        raised, self.raised = self.raised, None
        if raised is not None:
            raise raised

    def use(self, service: Service) -> None:
        options = options_of(declaration_of(service))
        self.services[service.path] = AuthoredService(options, service, self._call)

    def _call(self, path: str, handler: Callable[[], Any]) -> Any:
        try:
            return handler()
        except Refusal:
            raise
        except BaseException as error:
            self.raised = error
            raise

    def service(self, link: str) -> Served:
        found = self.services.get(link.rpartition("/")[0])
        if found is None:
            raise Refusal(f"there is no factory of {link}", status=404, code="not-found")
        return found

    def newest(self, link: str) -> Row | None:
        return self.rows[link][-1] if link in self.rows else None

    def apply(self, operation: Operation) -> Answer:
        """Execute an operation as the owner of its document."""
        link, head = operation.link, self.newest(operation.link)
        if operation.verb == "GET":
            return Answer(200 if head is not None and not head.deleted else 404, row=head)
        key = (link, operation.key)
        if key in self._keys:
            return Answer(200, row=self._keys[key])
        is_own = operation.fence == OF_THE_STORE
        try:
            service = WITHOUT_AUTHOR[3] if is_own else self.service(link)
        except Refusal as refused:
            return Answer(refused.status, refused.code, refused.detail)
        outcome = handle(head, operation, service, floor=-1, now_us=self._now_us)
        if isinstance(outcome, Refused):
            return outcome.answer
        row = self._append(link, outcome) if isinstance(outcome, New) else outcome.row
        if operation.key:
            self._keys[key] = row
        return Answer(200, row=row)

    def _append(self, link: str, new: New) -> Row:
        packed = OperationIdentity(
            "tester", 0, 0, 0, fences=new.fences, agenda=packed_agenda(new.agenda)
        ).pack()
        row = Row(
            0, 0, self.epoch, "tester", link, new.version, new.action, self._now_us(), new.deleted,
            new.signature, packed, b"", new.state,
        )  # fmt: skip
        self.rows.setdefault(link, []).append(row)
        if has_agenda(row):
            self._notice(row)
        return row


class ServiceTester:
    """Documents of some services, their owner, and the receivers of their effects."""

    def __init__(
        self, *services: Service, factories: Sequence[str] = (), start_us: int = NEW_YEAR_US
    ) -> None:
        """factories: paths of factories without a class. start_us: the time at first."""
        plain = [type("Plain", (Service,), {"path": path})() for path in factories]
        self.webhooks: list[Called] = []
        self._documents = _Documents(lambda: self.now_us, self._noticed)
        self.use(*services, *plain)
        self._records: dict[str, list[dict[str, Any]]] = {}
        self._done: set[tuple[str, int]] = set()
        """(link, number) of the records and webhooks that are delivered."""
        self._failing: Counter[str] = Counter()
        self._world = World(0)
        self._start_us = start_us
        self.change_owner()

    # Requests

    def post(self, factory: str, body: State | None = None) -> Made:
        """Create a document, of the id in `documentSelfLink` or of one that is chosen."""
        state = dict(body or {})
        name = str(state.pop("documentSelfLink", f"{len(self._documents.rows) + 1}"))
        return self._request("POST", f"{factory}/{name.rpartition('/')[2]}", state)

    def put(self, link: str, body: State) -> Made:
        """Create or replace a document."""
        return self._request("PUT", link, body)

    def patch(self, link: str, body: State) -> Made:
        """Change a document by its handler, or by a merge."""
        return self._request("PATCH", link, body)

    def delete(self, link: str) -> None:
        """Delete a document."""
        self._request("DELETE", link, {})

    def _request(self, method: Method, link: str, body: State) -> Made:
        """Execute a request. Raises Refused, another Refusal, or what a handler raised."""
        json.check(body)
        options = self._documents.service(link).options
        if method not in options.methods:
            detail = f"{options.path} takes {', '.join(options.methods)}; got {method}"
            raise Refusal(detail, status=405, code="method-not-allowed")
        answer = self._documents.apply(
            Operation(
                verb=method,
                link=link,
                body=json.dump(body),
                media="handler" if method == "PATCH" else "",
                creates=options.put_creates,
            )
        )
        if answer.row is None or not answer.is_success:
            self._documents.raise_again()
            if answer.status in STATUSES and answer.code == "refused-by-service":
                raise RefusedByService(answer.status, answer.detail)
            raise Refusal(answer.detail, status=answer.status, code=answer.code)
        return Made(link, answer.row.version, json.load(answer.row.state))

    # Results

    def get(self, link: str) -> State:
        """Return the state of a document. Raises LookupError if there is none."""
        row = self._documents.newest(link)
        if row is None or row.deleted:
            raise LookupError(f"there is no document {link}")
        found: State = json.load(row.state)
        return found

    def versions(self, link: str) -> list[State]:
        """Return the states of all versions of a document, the oldest first."""
        return [json.load(row.state) for row in self._documents.rows.get(link, [])]

    def timers(self, link: str) -> Mapping[str, Timer]:
        """Return the timers of a document by name."""
        return {each.name: each for each in agenda_of(self._documents.newest(link)).timers}

    def records(self, topic: str) -> list[dict[str, Any]]:
        """Return the records of a topic, each with `key`, `value` and `headers`."""
        return self._records.get(topic, [])

    @property
    def now_us(self) -> int:
        """Return the time in microseconds since 1970."""
        return self._start_us + round(self._world.now * 1e6)

    # Time, failures, other owners and classes

    def run(self, seconds: float = 1.0) -> None:
        """Let time pass. Raises EffectRefused, or what a handler raised for an effect or timer."""
        until = self._world.now + seconds
        while self._world.now < until:
            self._world.run(min(until, self._next_at()))
            self._expire()
            self._feed(Tick())
            self._world.run(self._world.now)
        self._documents.raise_again()

    def fail(self, target: str, times: int = 1) -> None:
        """Have the next deliveries to a link, a topic or a URL fail; they are repeated later."""
        self._failing[target] += times

    def use(self, *services: Service) -> None:
        """Use these services from now on, those of their paths included: an upgrade of nodes."""
        for each in services:
            self._documents.use(each)

    def change_owner(self) -> None:
        """Let another node own the documents; it knows nothing but the documents."""
        self._documents.epoch += 1
        self._agendas = Agendas(
            "tester", view=cast(MachineView, _View(self)), rng=Random(self._documents.epoch),
            now=self._world.now,
        )  # fmt: skip

    def owner(self) -> int:
        """Return the epoch of the owner, which counts the owners."""
        return self._documents.epoch

    def _next_at(self) -> float:
        """Return the time of the next tick: the next instant at which something may be due."""
        rows = [rows[-1] for rows in self._documents.rows.values()]
        agendas = [agenda_of(row) for row in rows]
        soon = self._world.now + TICK_S
        if any(each.effects for each in agendas):
            return soon
        due_us = [timer.due_us for agenda in agendas for timer in agenda.timers]
        due_us += [expiry_us(row.state) for row in rows if not row.deleted and expiry_us(row.state)]
        at = (min(due_us, default=1 << 62) - self._start_us) / 1e6
        return max(soon, at + 1e-6)

    def _expire(self) -> None:
        for link, rows in list(self._documents.rows.items()):
            at_us = 0 if rows[-1].deleted else expiry_us(rows[-1].state)
            if 0 < at_us < self.now_us:
                self._documents.apply(Operation(verb="DELETE", link=link, fence=OF_THE_STORE))

    # Timers and effects

    def _feed(self, event: AgendaEvent) -> None:
        for effect in self._agendas.step(event, self._world.now):
            self._perform(effect)

    def _noticed(self, row: Row) -> None:
        self._world.after(0.0, self._feed, Noticed(row))

    def _answer(self, owner: int, event: AgendaEvent) -> None:
        """Give the owner an answer, unless there is another owner by now."""
        if owner == self._documents.epoch:
            self._feed(event)

    def _perform(self, effect: AgendaEffect) -> None:
        match effect:
            case Ask(token, operation):
                fails = self._fails(operation.link) and operation.key != ""
                answer = Answer(503, "unavailable") if fails else self._documents.apply(operation)
                self._after(OperationAnswered(token, answer))
            case Survey(token):
                newest = [rows[-1] for rows in self._documents.rows.values()]
                self._after(Surveyed(token, [row for row in newest if has_agenda(row)]))
            case Post():
                self._after(Posted(effect.token, self._delivered(effect)))
            case GiveUp(link, said, status, why):
                documents = self._documents
                refused = EffectRefused(
                    f"an effect of {link} on {said.target} is refused: {status} {why}"
                )
                documents.raised = documents.raised or refused

    def _after(self, event: AgendaEvent) -> None:
        self._world.after(DELIVERY_S, self._answer, self._documents.epoch, event)

    def _fails(self, target: str) -> bool:
        if not self._failing[target]:
            return False
        self._failing[target] -= 1
        return True

    def _delivered(self, post: Post) -> int:
        """Deliver a record or a webhook, once, and return the status."""
        said, identity = post.effect, (post.link, post.effect.number)
        if self._fails(said.target):
            return 503
        if identity in self._done:
            return 200
        self._done.add(identity)
        body = json.load(said.body)
        if said.kind == RECORD:
            self._records.setdefault(said.target, []).append(body)
        else:
            self.webhooks.append(Called(said.target, body))
        return 200


class _View:
    """The group as the machine of agendas sees it: this node owns everything."""

    def __init__(self, tester: ServiceTester) -> None:
        self._tester = tester
        self._epoch = tester.owner()

    @property
    def terms_opened(self) -> int:
        return self._epoch

    def own_epoch(self, link: str) -> int:
        return self._epoch

    def owns(self, link: str) -> bool:
        return True

    def wall_now_us(self) -> int:
        return self._tester.now_us
