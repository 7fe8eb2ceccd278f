"""Search of all orders of events in a group, within bounds: python -m tests.sim.sessions_explorer.

Two members, one partition, two nodes that coordinate the group one after the other. The events
(time passes, the other node takes over, the first one learns of it, an update of the group is
decided, lost, or decided without an answer, a member stops, continues or leaves) are tried in every
order; one message between a member and a node may be late, whichever it is. After each step at
most one of the two members believes that it leads.

The machines are the product's. Time advances in steps of a heartbeat: S is three of them, T is
two, so that an error of one step is found. See `explorer.py` for how paths are explored.
"""

import argparse
import hashlib
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from docstore.documents.write_path.handle import Refused, Unchanged, handle
from docstore.machines.effects import Ask, Give, Send, Survey
from docstore.machines.events import Noticed, OperationAnswered, Received, Surveyed, Tick, TurnEnded
from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from docstore.services.group_document import ROLES, GroupState, MemberDetails, Settings
from docstore.services.groups import GroupService
from docstore.sessions.coordinating import Coordinating
from docstore.sessions.effects import Confirm
from docstore.sessions.events import Asked, Confirmed, SessionEvent
from docstore.sessions.group_messages import Wait, kind_of, reply_of
from docstore.sessions.machine import Sessions
from docstore.sessions.member import GroupMember
from docstore.sessions.member_events import Answered, Finished, LeaveAsked, MemberEvent, SendRequest
from docstore.sessions.member_events import Tick as MemberTick
from docstore.sessions.timing import SessionsConfig
from tests.sim.explorer import Choice, explore
from tests.sim.invariants import Violation

NODES, MEMBERS = ("a", "b"), ("x", "y")
LINK = f"{ROLES}/r"
BEAT_S = 1.0
SERVICE = GroupService(ROLES, "docstore:Roles")
SETTINGS = Settings(session_ms=3_000, heartbeat_ms=1_000, window_ms=2_000, revoke_ms=3_000)
CONFIG = SessionsConfig(pause_s=100.0, ask_timeout_s=100.0, resend_s=(100.0, 100.0), again_s=0.5)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds on the events of one path."""

    beats: int = 6
    successions: int = 1
    unknown: int = 1
    """Updates of unknown fate."""
    stops: int = 1
    leaves: int = 0
    late: int = 1


class Sight:
    """A node's view of the group: the owner of its document, as the node believes."""

    lacks_quorum = False
    is_draining = False
    members = NODES
    leavers: frozenset[str] = frozenset()

    def __init__(self, me: str) -> None:
        self._me = me
        self.owner, self.epoch = "a", 1 if me == "a" else 0
        self.zones: dict[str, str] = {}

    @property
    def terms_opened(self) -> int:
        return self.epoch

    def is_alive(self, node: str) -> bool:
        return True

    def is_linked(self, node: str) -> bool:
        return True

    def may_own(self, node: str) -> bool:
        return True

    def owns(self, link: str) -> bool:
        return self.epoch > 0

    def own_epoch(self, link: str) -> int:
        return self.epoch

    def owner_of(self, link: str) -> str:
        return self.owner

    def slot_of(self, link: str) -> int:
        return 0

    def past_us(self) -> int:
        return 0

    def wall_now_us(self) -> int:
        return 0


class World:
    """Two nodes, two members and a document at one point of one path."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.now = 10.0
        self.owner, self.epoch = "a", 1
        state = GroupState(parts={"": 1}, settings=SETTINGS).pack()
        self.row = Row(0, 0, 1, "a", LINK, 0, "POST", 0, False, b"", b"", b"", state)
        self.sights = {name: Sight(name) for name in NODES}
        self.machines = {
            name: Sessions(name, view=self.sights[name], rng=Random(1), config=CONFIG, now=self.now)
            for name in NODES
        }
        self.flying: list[tuple[Any, ...]] = []
        """(member, number, stamp, request or reply, whether it is a reply)."""
        self.late: list[tuple[Any, ...]] = []
        self.updates: list[tuple[str, int, Operation]] = []
        """(node, token, operation): requested, and not executed yet."""
        self.stopped: set[str] = set()
        self.left: set[str] = set()
        self.beats = self.successions = self.unknown = self.stops = self.leaves = self.delays = 0
        self._asking: dict[tuple[str, int], tuple[str, int, float]] = {}
        self._requests = 0
        ids = {name: iter(range(9)) for name in MEMBERS}
        self.members = {
            name: GroupMember(lambda name=name: f"{name}{next(ids[name])}", MemberDetails())  # type: ignore[misc]
            for name in MEMBERS
        }
        self._settle()

    def _settle(self) -> None:
        """Let x join, then y, without any trouble: x leads."""
        for name in MEMBERS:
            self._tell(name, MemberTick())
            while self.flying or self.updates:
                if self.flying:
                    self._arrive(self.flying.pop(0))
                else:
                    self._update("decided", 0)
        assert self._leading() == ["x"]

    # Nodes

    def _feed(self, name: str, event: SessionEvent) -> None:
        queue = deque([(name, event)])
        while queue:
            name, event = queue.popleft()
            machine = self.machines[name]
            for effect in machine.step(event, self.now):
                match effect:
                    case Send(to, message):
                        queue.append((to, Received(name, message)))
                    case Ask(token, operation, _) if operation.is_read:
                        answer = Answer(200, row=self.row, owner=self.owner, epoch=self.epoch)
                        queue.append((name, OperationAnswered(token, answer)))
                    case Ask(token, operation, _):
                        self.updates.append((name, token, operation))
                    case Confirm(token, links, _):
                        owners = dict.fromkeys(links, (self.owner, self.epoch))
                        queue.append((name, Confirmed(token, owners)))
                    case Survey(token):
                        queue.append((name, Surveyed(token, [self.row])))
                    case Give(request, reply):
                        member, number, stamp = self._asking.pop((name, request))
                        said = None if reply.status >= 300 else reply_of(reply.result)
                        self.flying.append((member, number, stamp, said, True))
            if not queue:
                queue.extend(
                    (each, TurnEnded()) for each, it in self.machines.items() if it.wants_turn
                )

    def _update(self, fate: str, index: int) -> None:
        """Apply an update of a node, or not, and answer with the result, or not."""
        name, token, operation = self.updates.pop(index)
        answer = Answer(504, "undecided", unknown=True)
        if fate != "lost":
            applied = self._apply(operation)
            answer = applied if fate == "decided" else answer
        if fate != "decided":
            self.unknown += 1
        self._feed(name, OperationAnswered(token, answer))

    def _apply(self, operation: Operation) -> Answer:
        said = Answer(200, row=self.row, owner=self.owner, epoch=self.epoch)
        if operation.only_epoch not in (0, self.epoch):
            return said._replace(status=412, code="other-reign")
        outcome = handle(self.row, operation, SERVICE, floor=-1, now_us=lambda: 0)
        if isinstance(outcome, Refused):
            return outcome.answer
        if isinstance(outcome, Unchanged):
            return said
        self.row = self.row._replace(
            epoch=self.epoch, owner=self.owner, version=outcome.version, state=outcome.state
        )
        for name in NODES:
            self._feed(name, Noticed(self.row))
        return said._replace(row=self.row)

    # Members

    def _tell(self, name: str, event: MemberEvent) -> None:
        for effect in self.members[name].step(event, self.now):
            if isinstance(effect, SendRequest) and not isinstance(effect.request, Wait):
                self.flying.append((name, effect.number, self.now, effect.request, False))
        self._check()

    def _arrive(self, message: tuple[Any, ...]) -> None:
        name, number, stamp, what, is_reply = message
        if is_reply:
            self._tell(name, Answered(number, what, stamp))
            return
        self._requests += 1
        at = self.owner if message not in self.late else "a"
        self._asking[at, self._requests] = (name, number, stamp)
        kind = kind_of(LINK, type(what).__name__.lower())
        self._feed(at, Asked(self._requests, LINK, kind, list(what), self.now + 100.0))

    def _check(self) -> None:
        """SI1: at most one of them leads at this instant."""
        leading = self._leading()
        if len(leading) > 1:
            raise Violation(f"SI1: {leading} lead at {self.now}")

    def _leading(self) -> list[str]:
        return [
            name
            for name, member in self.members.items()
            if member.induced is not None and member.induced.leads_partition(0, self.now)
        ]

    # Choices

    def choices(self) -> Iterator[Choice]:
        """Yield everything that can happen next."""
        bounds = self.bounds
        for index, (name, *_, is_reply) in enumerate(self.flying):
            if not (is_reply and name in self.stopped):
                yield ("arrives", index)
                if self.delays < bounds.late:
                    yield ("is late", index)
                return
        yield from (("arrives late", index) for index in range(len(self.late)))
        for index in range(len(self.updates)):
            yield ("decided", index)
            if self.unknown < bounds.unknown:
                yield ("lost", index)
                yield ("unknown", index)
        if self.beats < bounds.beats:
            yield ("beat", 0)
        if self.successions < bounds.successions:
            yield ("succession", 0)
        if self.sights["a"].epoch not in (0, self.epoch):
            yield ("notices", 0)
        for name in MEMBERS:
            if name in self.stopped:
                yield ("goes on", name)
            elif self.stops < bounds.stops:
                yield ("stops", name)
            if self.leaves < bounds.leaves and name not in self.left | self.stopped:
                yield ("leaves", name)
            if self.members[name]._me.revoking and name not in self.stopped:
                yield ("finishes", name)

    def do(self, choice: Choice) -> None:
        """Apply a choice."""
        kind, what = choice
        match kind:
            case "arrives":
                self._arrive(self.flying.pop(what))
            case "is late":
                self.delays += 1
                self.late.append(self.flying.pop(what))
            case "arrives late":
                message = self.late[what]
                self._arrive(message)
                self.late.remove(message)
            case "decided" | "lost" | "unknown":
                self._update(kind, what)
            case "beat":
                self._beat()
            case "succession":
                self.successions += 1
                self.owner, self.epoch = "b", self.epoch + 1
                self.sights["b"].owner, self.sights["b"].epoch = "b", self.epoch
                self._feed("b", Tick())
            case "notices":
                self.sights["a"].owner, self.sights["a"].epoch = "b", 0
                self._feed("a", Tick())
            case "stops":
                self.stops += 1
                self.stopped.add(what)
            case "goes on":
                self.stopped.discard(what)
                self._tell(what, MemberTick())
            case "leaves":
                self.leaves += 1
                self.left.add(what)
                self._tell(what, LeaveAsked())
            case "finishes":
                self._tell(what, Finished("0"))
        self._check()

    def _beat(self) -> None:
        self.beats += 1
        self.now += BEAT_S
        self._check()
        for name in NODES:
            self._feed(name, Tick())
        for name in MEMBERS:
            if name not in self.stopped:
                self._tell(name, MemberTick())

    def fingerprint(self) -> bytes:
        """Return a digest of the state."""
        counts = (self.beats, self.successions, self.unknown, self.stops, self.leaves, self.delays)
        parts: list[Any] = [counts, self.row, self.flying, self.late, self.updates]
        parts += [sorted(self.stopped), sorted(self.left), sorted(self._asking.values())]
        parts += [(sight.owner, sight.epoch) for sight in self.sights.values()]
        parts += [_coordinator(machine) for machine in self.machines.values()]
        parts += [_member(member) for member in self.members.values()]
        return hashlib.blake2b(repr(parts).encode(), digest_size=12).digest()


def _coordinator(machine: Sessions) -> list[Any]:
    """Return what a node knows of the group, and what it waits for."""
    [coordinating] = [
        part for part in machine.parts if isinstance(part, Coordinating) and part.path == ROLES
    ]
    found: list[Any] = [len(machine.core._asks), len(machine.calls._outstanding)]
    found += [(each.link, each.tag, each.retry_at) for each in machine.updates._retrying]
    found += [
        (key, each.until, each.is_ending) for key, each in coordinating._deadlines._known.items()
    ]
    for governed in coordinating._governed.values():
        joining = {name: len(each) for name, each in governed.joining.items()}
        leaving = {name: len(each) for name, each in governed.leaving.items()}
        known = (governed.known.tag, governed.known.epoch, governed.known.is_sure, governed.group)
        found += [known, governed.heard, governed.changes, governed.draft, joining, leaving]
    return found


def _member(member: GroupMember) -> list[Any]:
    """Return what a member is, believes and waits for."""
    timers = (member._pulse_at, member._say_at, member._leave_by, member._numbers)
    leaving = (member._leaving, member._is_over)
    induced = member.induced
    entries = [] if induced is None else [*induced._entries.items(), *induced._revoking.items()]
    believed = [(each, it.token, it.since, it.proof.until, it.is_told) for each, it in entries]
    return [member._me, member._asking, timers, leaving, believed]


def main() -> int:
    """Explore from the command line; print the result."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.sessions_explorer")
    parser.add_argument("--states", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--beats", type=int, default=7)
    parser.add_argument("--late", type=int, default=1)
    parser.add_argument("--leaves", type=int, default=1)
    options = parser.parse_args()
    bounds = Bounds(beats=options.beats, late=options.late, leaves=options.leaves)
    began = time.monotonic()
    found = explore(bounds, options.states, options.seconds, begin=World)
    took_s = time.monotonic() - began
    whole = "all there are" if found.complete else "not all"
    print(f"{found.states} states ({whole}), {found.steps} steps, {took_s:.0f} s")
    if found.problem:
        print(found.problem, *found.way, sep="\n  ")
    return 1 if found.problem else 0


if __name__ == "__main__":
    sys.exit(main())
