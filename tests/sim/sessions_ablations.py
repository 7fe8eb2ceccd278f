"""Removal of one rule of sessions at a time, from outside: the runs must notice each."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from docstore.documents.write_path import handle, serve
from docstore.machines.updates import Updates
from docstore.model.fences import passed
from docstore.ownership import by_store
from docstore.sessions import holder
from docstore.sessions.confirming import Confirming
from docstore.sessions.coordinated_group import CoordinatedGroup
from docstore.sessions.deadlines import Deadlines
from docstore.sessions.leasing import Leasing
from docstore.sessions.machine import Sessions
from docstore.sessions.timing import SessionsConfig
from docstore.sessions.waiting import Waiting
from tests.sim import meddlers, register, sessions_bench
from tests.sim.actors import Actor, Sent
from tests.sim.groups_ablations import CHANGES, GROUP_RULES, KAFKA
from tests.sim.sessions_shapes import Shape
from tests.sim.taken_away import Ablation, changed, never, nothing
from tests.sim.tenants import Candidate, Tenant

DELUDED = Shape(kinds=("delude", "delude", "move", "pause"), ttl_ms=800, lessees=3)
ACTORS = Shape(kinds=("move",), actor_kinds=("freeze", "freeze", "half", "deaf"), ttl_ms=800)
RATES = Shape(
    kinds=(),
    actor_kinds=("deaf",),
    ttl_ms=5_000,
    turn_s=60.0,
    candidates=4,
    lessees=0,
    trouble=0.0,
    faults_s=40.0,
)
UNKNOWN = Shape(kinds=("cut", "pause", "isolate"), ttl_ms=800, trouble=2.5, ask_timeout_s=1.5)
MEDDLED = Shape(meddlers=3, candidates=2, guarded=1)
LATE = Shape(lessees=4, attached=40, ttl_ms=800, kinds=("move", "crash"))
NEAR = Shape(lessees=0, ttl_ms=800, ghosts=0.5, actor_kinds=("freeze", "deaf"), is_near=True)
HANDED_ON = replace(RATES, operators=3, meddlers=0, candidates=3, ttl_ms=4_000, faults_s=120.0)
QUEUES = Shape(candidates=5, lessees=0, kinds=("move", "pause"), trouble=2.0)


_change: Callable[..., None] = Updates.change
_answered: Callable[..., None] = Confirming._answered
_replied: Callable[..., None] = Actor._answered
_entered: Callable[..., None] = Leasing.entered
_resume: Callable[[Actor], None] = Actor.resume
_post: Callable[..., None] = Tenant._post
_given_up: Callable[..., None] = Candidate._given_up
_carrying: Callable[..., handle.New] = handle.carrying
_promoted: Callable[..., by_store.Turns] = by_store.promoted


def _for_any_term(self: Updates, *arguments: Any, only_epoch: int = 0, **more: Any) -> None:
    _change(self, *arguments, **more)


def _from_memory(self: Confirming, link: str, then: Any, lost: Any) -> None:
    """Answer from the table, at once."""
    if self._core.view.owns(link):
        then(self._owned.at(link))
    else:
        lost()


def _by_any_owner(self: Confirming, questions: Any, answer: Any) -> None:
    """Treat any answer as one of this node in its term."""
    core = self._core
    epoch = core.view.own_epoch(questions[0].link)
    _answered(self, questions, answer._replace(owner=core.me, epoch=epoch))


def _the_rest(self: Leasing, known: Any) -> None:
    """Grant a lease of an earlier term only a part of its time."""
    _entered(self, known)
    deadline = self.deadlines._known.get(known.link)
    if deadline is not None and known.tag[0] < known.epoch:
        self.deadlines.grant(known.link, deadline.span_s / 4)
        self.deadlines._known[known.link].span_s = deadline.span_s


def _stamped_at_receipt(self: Actor, number: int, said: Any) -> None:
    then, sent = self._pending.get(number, (None, None))
    if then is not None and sent is not None:
        self._pending[number] = (then, Sent(self.clock.now(), sent.at))
    _replied(self, number, said)


def _stopped_clock(self: Actor) -> None:
    """Resume with a clock that was paused, too."""
    self.clock.set_back(self.world.now - self._paused_at)
    _resume(self)


def _renewed_though_ending(self: Deadlines[Any], key: Any) -> bool:
    deadline = self._known.get(key)
    if deadline is None:
        return False
    deadline.until = self._core.heard_s + deadline.span_s
    return True


def _time_goes_on(self: Sessions, passed_s: float) -> None:
    """Count the time in which this process was paused."""
    self.core.heard_s += passed_s


def _proven_by_a_retry(self: Tenant, lease: str, first: Sent | None) -> None:
    _post(self, lease, None)


def _fences_only_with_a_fence(remembered: Any, fence: Any) -> Any:
    return passed(remembered, fence) if fence else ()


def _fences_not_in_tombstones(new: handle.New, fences: Any) -> handle.New:
    return new if new.deleted else _carrying(new, fences)


def _counted(turns: by_store.Turns, version: int) -> by_store.Turns:
    """Number turns in the state, from the beginning in each document."""
    return _promoted(turns, turns.token + 1)


def _swept_once(shape: Shape) -> SessionsConfig:
    return SessionsConfig(ask_timeout_s=shape.ask_timeout_s, resend_s=(1.0, 1.0), passes_s=(0.0,))


def _read_then_waiting(self: Waiting, served: Any, wait_s: float, wanted: Any, late: Any) -> None:
    """Read, and register the waiter once that is confirmed."""
    found = wanted(self._owned.at(served.link))
    if found is not None:
        served.reply(found)
        return

    def then(known: Any) -> None:
        _register(self, served, wait_s, wanted, late)

    self._confirming.confirm(served.link, then, served.elsewhere)


def _register(self: Waiting, *arguments: Any) -> None:
    """Register a waiter without a read."""
    with patch.object(Confirming, "confirm", nothing):
        _wait(self, *arguments)


_wait: Callable[..., None] = Waiting.wait


def _dropped_when_answered(self: Candidate, lease: str, token: int) -> None:
    if self.token == token and not self._is_over(lease):
        self._resign(lease, token)


def _given_up_at_last(self: Candidate, lease: str, token: int, answer: Any) -> None:
    if self.token == token:
        self.token = 0
    _given_up(self, lease, token, answer)


def _at_once(*_: Any) -> float:
    return 0.0


def _by_an_exact_clock(window_s: float, *_: Any) -> float:
    return window_s


RULES: dict[str, Ablation] = {
    "ended-under-any-reign": Ablation("S4", ((Updates, "change", _for_any_term),), DELUDED),
    "groups-changed-under-any-reign": Ablation(
        "G1", ((Updates, "change", _for_any_term),), CHANGES
    ),
    "answered-from-memory": Ablation("S3", ((Confirming, "confirm", _from_memory),), DELUDED),
    "confirmed-by-any-owner": Ablation("S3", ((Confirming, "_answered", _by_any_owner),), DELUDED),
    "members-answered-from-memory": Ablation(
        "G2", ((Confirming, "confirm", _from_memory),), CHANGES
    ),
    "members-confirmed-by-any-owner": Ablation(
        "G2", ((Confirming, "_answered", _by_any_owner),), CHANGES
    ),
    "kafka-answered-from-memory": Ablation("KG1", ((Confirming, "confirm", _from_memory),), KAFKA),
    "kafka-changed-under-any-reign": Ablation("KG2", ((Updates, "change", _for_any_term),), KAFKA),
    "not-granted-in-full": Ablation("S2", ((Leasing, "entered", _the_rest),), DELUDED),
    "stamped-at-receipt": Ablation("H1", ((Actor, "_answered", _stamped_at_receipt),), ACTORS),
    "believed-for-the-whole-time": Ablation(
        "H2",
        (
            (holder, "check_disjoint", nothing),
            (Tenant, "window_s", property(lambda self: self.ttl_s)),
        ),
        RATES,
    ),
    "rates-ignored": Ablation(
        "H2",
        (
            (holder, "check_disjoint", nothing),
            (Tenant, "window_s", property(lambda self: self.ttl_s * 0.99)),
        ),
        RATES,
    ),
    "a-clock-that-stops": Ablation("H3", ((Actor, "resume", _stopped_clock),), ACTORS),
    "renewed-though-ending": Ablation(
        "S4",
        ((Deadlines, "renew", _renewed_though_ending), (Deadlines, "is_ending", never)),
        UNKNOWN,
    ),
    "members-confirmed-though-leaving": Ablation(
        "G2",
        (
            (Deadlines, "renew", _renewed_though_ending),
            (Deadlines, "is_ending", never),
            (CoordinatedGroup, "is_leaving", never),
            (CoordinatedGroup, "_takes", never),
        ),
        replace(UNKNOWN, groups=("/core/roles/r",), turns=(), lessees=0, members=4),
    ),
    "deadlines-not-moved-after-a-pause": Ablation(
        "S4", ((Sessions, "_stalled", _time_goes_on),), ACTORS
    ),
    "created-by-a-retry": Ablation("H1", ((Tenant, "_post", _proven_by_a_retry),), UNKNOWN),
    "fences-not-carried": Ablation("F2", ((handle, "passed", _fences_only_with_a_fence),), MEDDLED),
    "fences-buried": Ablation("F2", ((handle, "carrying", _fences_not_in_tombstones),), MEDDLED),
    "tokens-counted-in-the-state": Ablation("D2", ((by_store, "promoted", _counted),), MEDDLED),
    "swept-once": Ablation("S5", ((sessions_bench, "config_of", _swept_once),), LATE),
    "read-then-waiting": Ablation("W1", ((Waiting, "wait", _read_then_waiting),), QUEUES),
    "entered-under-any-lease": Ablation(
        "A4", ((serve, "unmet", nothing), (register, "unmet", nothing)), NEAR
    ),
    "handed-on-at-once": Ablation("S7", ((meddlers, "lapse_s", _at_once),), HANDED_ON),
    "handed-on-by-an-exact-clock": Ablation(
        "S7", ((meddlers, "lapse_s", _by_an_exact_clock),), HANDED_ON
    ),
    "dropped-when-answered": Ablation(
        "H4",
        (
            (Candidate, "_stop", _dropped_when_answered),
            (Candidate, "_given_up", _given_up_at_last),
        ),
        QUEUES,
    ),
}

RULES |= GROUP_RULES


def without(name: str) -> AbstractContextManager[None]:
    """Run the body without a rule."""
    return changed(RULES[name])
