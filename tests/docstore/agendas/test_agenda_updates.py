"""Updates change the timers and effects of their document."""

from typing import Any

import pytest

from docstore.documents.retention.trim import without_effects
from docstore.documents.write_path.handle import New, Outcome, Refused, handle
from docstore.documents.write_path.propose import pages
from docstore.model import json
from docstore.model.agenda import (
    CATCH_UP_MAX,
    EFFECTS_MAX,
    FIRE,
    SETTLE,
    Agenda,
    Effect,
    Timer,
    agenda_of,
    following,
    packed_agenda,
)
from docstore.model.document import Row
from docstore.model.fences import OF_THE_STORE, Fence, fences_of
from docstore.model.identity import OperationIdentity
from docstore.model.operation import Operation
from docstore.model.principals import is_named, principal_link
from docstore.model.service import LEVELS, WITHOUT_AUTHOR, Service, ServiceOptions, State
from docstore.service import UNCHANGED, Change, Record, Request, Webhook
from docstore.service import Refused as No
from docstore.service import Service as Author
from docstore.services.authored import AuthoredService, declaration_of
from docstore.services.declared import DeclaredService, options_of

LINK, NOW_US = "/t/a", 1_700_000_000_000_000
TIMER = Timer("x", NOW_US, 1_000_000)
EFFECTS = (Effect(64, "PUT", "/a/b", b"{}"), Effect(65, "RECORD", "t", b"{}"))
PLAIN = DeclaredService(ServiceOptions(path="/t", kind="t"))


class Timed(Author):
    path = "/t"

    def on_patch(self, state: State, body: State, request: Request) -> Any:
        for name, seconds in body.get("start", {}).items():
            request.start_timer(name, after_s=seconds)
        for name in body.get("stop", ()):
            request.stop_timer(name)
        for number in range(body.get("effects", 0)):
            request.after_commit(Change("PATCH", "/a/b", {"n": number}))
        return UNCHANGED if "stop" in body else state | {"patched": True}

    def on_timer(self, state: State, timer: Timer, request: Request) -> Any:
        if state.get("stays"):
            return UNCHANGED
        if state.get("refuses"):
            raise No(409, "not now")
        return state | {"fired": timer.due_us}


TIMED = AuthoredService(options_of(declaration_of(Timed())), Timed())


def row(agenda: Agenda, state: State | None = None, *, deleted: bool = False) -> Row:
    packed = OperationIdentity("n", 1, 1, 1, agenda=packed_agenda(agenda)).pack()
    raw = json.dump(state or {})
    return Row(0, 5, 1, "n", LINK, 1, "PUT", 0, deleted, b"", packed, b"", raw)


def done(
    head: Row, operation: Operation, service: Service = TIMED, now_us: int = NOW_US
) -> Outcome:
    return handle(head, operation, service, floor=-1, now_us=lambda: now_us)


def patched(body: State, head: Row) -> Outcome:
    raw = json.dump(body)
    return done(head, Operation(verb="PATCH", link=LINK, body=raw, media="handler"))


def fired(timer: Timer, head: Row, service: Service = TIMED, now_us: int = NOW_US) -> Outcome:
    raw = json.dump(tuple(timer))
    return done(head, Operation(verb="PATCH", link=LINK, body=raw, media=FIRE), service, now_us)


def settled(until: int, head: Row) -> Outcome:
    raw = b"%d" % until
    asked = Operation(verb="PATCH", link=LINK, body=raw, media=SETTLE, fence=OF_THE_STORE)
    return done(head, asked, WITHOUT_AUTHOR[3])


def made(outcome: Outcome) -> tuple[State, Agenda]:
    assert isinstance(outcome, New), outcome
    return json.load(outcome.state), outcome.agenda or Agenda()


def test_an_identity_with_an_agenda_keeps_all_else() -> None:
    agenda, fences = Agenda((TIMER,), EFFECTS), (Fence("lock", 3),)
    packed = OperationIdentity(
        "n", 1, 1, 1, "key", fences=fences, part=(0, 2), principal="ann", agenda=tuple(agenda)
    ).pack()
    found = row(Agenda())._replace(operation=packed)
    assert (agenda_of(found), fences_of(found)) == (agenda, fences)
    assert (is_named(found), principal_link(found)) == (True, "/core/access/users/ann")
    assert not is_named(row(agenda)), "a version of no user"
    assert not agenda_of(row(Agenda()))


def test_an_update_without_a_handler_keeps_timers_and_effects() -> None:
    before = Agenda((TIMER,), EFFECTS)
    for service in (PLAIN, WITHOUT_AUTHOR[3]):
        put = Operation(verb="PUT", link=LINK, body=b'{"a":1}', fence=OF_THE_STORE)
        assert made(done(row(before), put, service)) == ({"a": 1}, before)


def test_a_deletion_ends_timers_and_keeps_effects() -> None:
    head = row(Agenda((TIMER,), EFFECTS))
    for service in (PLAIN, WITHOUT_AUTHOR[3]):
        _, agenda = made(done(head, Operation(verb="DELETE", link=LINK), service))
        assert agenda == Agenda((), EFFECTS)
    tombstone = row(Agenda((), EFFECTS), deleted=True)
    outcome = settled(65, tombstone)
    assert isinstance(outcome, New)
    assert (outcome.deleted, outcome.agenda) == (True, Agenda())


def test_a_tombstone_is_kept_until_its_effects_are_settled() -> None:
    done, waits = row(Agenda(), deleted=True), row(Agenda((), EFFECTS), deleted=True)
    assert without_effects([done, waits, done]) == [done, done]


def test_a_handler_starts_and_stops_timers_and_adds_effects() -> None:
    state, agenda = made(patched({"start": {"x": 1, "y": 0}, "effects": 2}, row(Agenda())))
    assert state == {"patched": True}
    assert agenda.timers == (Timer("x", NOW_US + 1_000_000), Timer("y", NOW_US))
    assert [each.number for each in agenda.effects] == [2 * EFFECTS_MAX, 2 * EFFECTS_MAX + 1]
    state, agenda = made(patched({"stop": ["x"]}, row(Agenda((TIMER,)), {"a": 1})))
    assert (state, agenda) == ({"a": 1}, Agenda()), "unchanged, and yet another version"


def test_a_due_time_takes_effect_once() -> None:
    state, agenda = made(fired(TIMER, row(Agenda((TIMER,)))))
    assert state == {"fired": NOW_US}
    assert agenda.timers == (TIMER._replace(due_us=NOW_US + 1_000_000),)
    again = fired(TIMER, row(agenda, state))
    assert isinstance(again, Refused)
    assert (again.answer.status, again.answer.code) == (409, "not-due")
    once = Timer("y", NOW_US)
    assert made(fired(once, row(Agenda((once,)), {"stays": 1}))) == ({"stays": 1}, Agenda())
    assert isinstance(fired(once, row(Agenda((once,)), deleted=True)), Refused)


def test_a_timer_stays_if_its_handler_refuses_or_is_missing() -> None:
    head = row(Agenda((TIMER,)), {"refuses": True})
    refused = fired(TIMER, head)
    assert isinstance(refused, Refused)
    assert refused.answer.detail == "not now"
    assert isinstance(fired(TIMER, head, PLAIN), Refused)
    assert isinstance(fired(TIMER, head, WITHOUT_AUTHOR[3]), Refused)


def test_a_timer_far_behind_skips_all_but_its_newest_due_times() -> None:
    late_us = NOW_US + (CATCH_UP_MAX + 7) * 1_000_000 + 5
    _, agenda = made(fired(TIMER, row(Agenda((TIMER,))), now_us=late_us))
    assert agenda.timers[0].due_us == NOW_US + 8 * 1_000_000
    assert following(TIMER, NOW_US + 5_000_000) == TIMER._replace(due_us=NOW_US + 1_000_000)


def test_settled_effects_leave_and_the_state_stays() -> None:
    head = row(Agenda((TIMER,), EFFECTS), {"a": 1})
    assert made(settled(64, head)) == ({"a": 1}, Agenda((TIMER,), EFFECTS[1:]))
    assert made(settled(70, head))[1] == Agenda((TIMER,), ())
    assert isinstance(settled(63, head), Refused)


def test_effects_that_wait_are_bounded() -> None:
    head = row(Agenda((), tuple(Effect(n, "PUT", "/a/b", b"{}") for n in range(EFFECTS_MAX))))
    refused = patched({"effects": 1}, head)
    assert isinstance(refused, Refused)
    assert (refused.answer.status, refused.answer.code) == (503, "effects-waiting")
    assert isinstance(patched({}, head), New), "without an effect it goes on"
    too_many = patched({"effects": EFFECTS_MAX + 1}, row(Agenda()))
    assert isinstance(too_many, Refused)
    assert too_many.answer.status == 500, "it will never fit, so a retry is in vain"


def test_large_effects_count_where_pages_are_cut() -> None:
    large = row(Agenda((), (Effect(1, "RECORD", "t", b"x" * 2_000),)), {"a": 1})
    assert 2_000 < large.weight < 2_200
    assert row(Agenda((TIMER,), EFFECTS), {"a": 1}).weight == len(b'{"a":1}')
    assert [len(each) for each in pages([large] * 4, 256, 4_500)] == [2, 2]


REQUEST = Request(method="PUT", link=LINK, version=1, now_us=NOW_US)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda: REQUEST.start_timer("", after_s=1), "name"),
        (lambda: REQUEST.start_timer("\ud800", after_s=1), "surrogates"),
        (lambda: REQUEST.start_timer(b"x", after_s=1), "name"),  # type: ignore[arg-type]
        (lambda: REQUEST.start_timer("x", after_s=1e30), "2250"),
        (lambda: REQUEST.start_timer("x", after_s=float("inf")), "infinity"),
        (lambda: REQUEST.start_timer("x", after_s=1, every_s=1e30), "every_s"),
        (lambda: REQUEST.start_timer("x"), "after_s"),
        (lambda: REQUEST.after_commit(Record(7, "x")), "text of 1"),  # type: ignore[arg-type]
        (lambda: REQUEST.after_commit(Record("\ud800", "x")), "surrogates"),
        (lambda: REQUEST.after_commit(Record("t", "x", key=7)), "key"),  # type: ignore[arg-type]
        (lambda: REQUEST.after_commit(Record("t", "x", headers={"a": 1})), "header"),  # type: ignore[dict-item]
        (lambda: REQUEST.after_commit(Webhook("", {})), "text of 1"),
        (lambda: REQUEST.after_commit("x"), "effect"),  # type: ignore[arg-type]
        (lambda: REQUEST.start_timer("x", every_s=0.01), "every_s"),
        (lambda: REQUEST.after_commit(Change("PUT", "/core/topics/x", {})), "link"),
        (lambda: REQUEST.after_commit(Change("PUT", "/a", {})), "link"),
        (lambda: REQUEST.after_commit(Change("GET", "/a/b", {})), "method"),  # type: ignore[arg-type]
        (lambda: REQUEST.after_commit(Record("t", "x" * 70_000)), "65536 bytes"),
        (lambda: REQUEST.after_commit(Record("t", float("nan"))), "finite"),
        (lambda: REQUEST.after_commit(Webhook("http://a", object())), "object"),
    ],
)
def test_malformed_timers_and_effects_are_errors_of_the_handler(wrong: Any, why: str) -> None:
    with pytest.raises(Exception, match=why):
        wrong()


def test_weaker_levels_have_neither() -> None:
    class Weak(Timed):
        options = LEVELS[1]

    weak = AuthoredService(options_of(declaration_of(Weak())), Weak())
    raw = b'{"start": {"x": 1}}'
    asked = Operation(verb="PATCH", link=LINK, body=raw, media="handler", level=2)
    outcome = done(row(Agenda()), asked, weak)
    assert isinstance(outcome, Refused)
    assert outcome.answer.status == 500
