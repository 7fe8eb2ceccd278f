"""The machine of agendas: its effects, and when it requests them."""

from random import Random
from typing import Any, cast

from docstore.agendas.effects import Post
from docstore.agendas.events import Posted
from docstore.agendas.machine import Agendas
from docstore.machines.effects import Ask, Survey
from docstore.machines.events import Noticed, OperationAnswered, Surveyed, Tick
from docstore.machines.view import MachineView
from docstore.model.agenda import FIRE, SETTLE, Agenda, Effect, Timer, packed_agenda
from docstore.model.document import Row
from docstore.model.identity import OperationIdentity
from docstore.model.operation import Answer, Operation

NOW_US = 1_700_000_000_000_000
LINK = "/t/a"


class View:
    """This node owns everything under an epoch, or nothing under epoch 0."""

    def __init__(self) -> None:
        self.epoch, self.terms_opened, self.now_us = 3, 1, NOW_US

    def own_epoch(self, link: str) -> int:
        return self.epoch

    def owns(self, link: str) -> bool:
        return self.epoch > 0

    def wall_now_us(self) -> int:
        return self.now_us


class Driven:
    """A machine that is stepped by hand."""

    def __init__(self) -> None:
        self.view, self.now = View(), 0.0
        self.machine = Agendas("n", view=cast(MachineView, self.view), rng=Random(1))

    def step(self, event: Any) -> list[Any]:
        return self.machine.step(event, self.now)

    def pass_s(self, seconds: float) -> list[Any]:
        """Let time pass; return the effects without searches."""
        self.now += seconds
        self.view.now_us += round(seconds * 1e6)
        return [each for each in self.step(Tick()) if not isinstance(each, Survey)]

    def asked(self, effects: list[Any]) -> tuple[int, Operation]:
        """Return the token and the operation of the only effect."""
        [asked] = effects
        assert isinstance(asked, Ask)
        return asked.token, asked.operation


def row(version: int, *, timers: Any = (), effects: Any = (), epoch: int = 3) -> Row:
    packed = packed_agenda(Agenda(tuple(timers), tuple(effects)))
    identity = OperationIdentity("n", 1, 1, 1, agenda=packed).pack()
    return Row(0, version, epoch, "n", LINK, version, "PUT", 0, False, b"", identity, b"", b"{}")


def test_a_timer_fires_when_it_is_due_under_the_present_term() -> None:
    driven = Driven()
    timer = Timer("x", NOW_US + 1_000_000)
    driven.step(Noticed(row(1, timers=[timer])))
    assert driven.pass_s(0.99) == []
    token, operation = driven.asked(driven.pass_s(0.02))
    assert (operation.media, operation.only_epoch, operation.link) == (FIRE, 3, LINK)
    driven.step(OperationAnswered(token, Answer(504, "undecided", unknown=True)))
    assert driven.pass_s(0.01) == [], "after a pause"
    again, repeated = driven.asked(driven.pass_s(0.2))
    assert repeated == operation
    driven.step(OperationAnswered(again, Answer(200, row=row(2))))
    assert driven.pass_s(100) == []
    assert len(driven.machine.documents) == 0


def test_a_deposed_owner_fires_and_delivers_nothing() -> None:
    driven = Driven()
    effect = Effect(64, "RECORD", "t", b"{}")
    driven.view.epoch = 0
    assert driven.step(Noticed(row(1, timers=[Timer("x", NOW_US)], effects=[effect]))) == []
    assert driven.pass_s(1) == []
    driven.view.epoch = 3
    [post] = driven.step(Noticed(row(1, timers=[Timer("x", NOW_US)], effects=[effect])))
    assert isinstance(post, Post)
    driven.view.epoch = 4
    assert driven.step(Posted(post.token, 200)) == []
    assert driven.pass_s(10) == [], "the next term finds the document by itself"


def test_a_row_of_the_disk_is_read_again_before_it_counts() -> None:
    driven = Driven()
    [survey] = driven.step(Tick())
    assert isinstance(survey, Survey)
    undecided = row(5, effects=[Effect(320, "RECORD", "t", b"{}")])
    plain = row(1)._replace(operation=b"", link="/t/b")
    token, read = driven.asked(driven.step(Surveyed(survey.token, [undecided, plain])))
    assert (read.verb, read.link) == ("GET", LINK)
    decided = row(4, effects=[Effect(256, "RECORD", "t", b"{}")])
    [post] = driven.step(OperationAnswered(token, Answer(200, row=decided)))
    assert post.effect.number == 256


def test_documents_that_were_found_are_read_without_waiting_for_a_tick() -> None:
    driven = Driven()
    [survey] = driven.step(Tick())
    found = [row(1, timers=[Timer("x", NOW_US)])._replace(link=f"/t/{n}") for n in range(200)]
    asked = driven.step(Surveyed(survey.token, found))
    assert len(asked) == 64
    for number, each in enumerate(found):
        more = driven.step(OperationAnswered(asked[number].token, Answer(200, row=each)))
        asked += more
    assert len(driven.machine.documents) == 200


def test_a_read_that_fails_at_once_waits_for_the_next_tick() -> None:
    driven = Driven()
    [survey] = driven.step(Tick())
    token, _ = driven.asked(driven.step(Surveyed(survey.token, [row(1, timers=[Timer("x", 1)])])))
    assert driven.step(OperationAnswered(token, Answer(503, "no-quorum"))) == []
    assert driven.asked(driven.pass_s(0.05))[1].verb == "GET"


def test_effects_follow_each_other_and_are_settled_together() -> None:
    driven = Driven()
    effects = [Effect(number, "RECORD", "t", b"{}") for number in (64, 65, 128)]
    [first] = driven.step(Noticed(row(1, effects=effects[:2])))
    assert driven.step(Noticed(row(2, effects=effects))) == [], "one at a time"
    assert driven.step(Posted(first.token, 503)) == []
    [again] = driven.pass_s(0.2)
    assert (again.effect, again.token == first.token) == (effects[0], False)
    [second] = driven.step(Posted(again.token, 200))
    [third] = driven.step(Posted(second.token, 200))
    assert [each.effect for each in (second, third)] == effects[1:]
    token, settling = driven.asked(driven.pass_s(0.6))
    assert (settling.media, settling.body, settling.only_epoch) == (SETTLE, b"65", 3)
    driven.step(Posted(third.token, 200))
    assert driven.pass_s(0.1) == []
    driven.step(OperationAnswered(token, Answer(200, row=row(3, effects=effects[2:]))))
    assert driven.asked(driven.pass_s(1))[1].body == b"128"


def test_a_pause_after_failures_is_kept_and_grows() -> None:
    driven = Driven()
    effects = [Effect(number, "RECORD", "t", b"{}") for number in (64, 65)]
    [first] = driven.step(Noticed(row(1, effects=effects)))
    [second] = driven.step(Posted(first.token, 200))
    pauses = []
    for _ in range(6):
        driven.step(Posted(second.token, 0))
        began = driven.now
        while not (found := [each for each in driven.pass_s(0.05) if isinstance(each, Post)]):
            assert driven.now < began + 40
        pauses.append(driven.now - began)
        [second] = found
    assert all(0.9 < pause / (0.1 * 2**n) < 1.8 for n, pause in enumerate(pauses)), pauses


def test_many_timers_are_one_heap_and_bounded_firings() -> None:
    driven = Driven()
    for number in range(2_000):
        found = row(1, timers=[Timer("x", NOW_US + number)])
        driven.step(Noticed(found._replace(link=f"/t/{number}")))
    asked = driven.pass_s(1)
    assert [each.operation.link for each in asked] == [f"/t/{number}" for number in range(256)]
    assert driven.pass_s(1) == []
    assert (
        driven.asked(driven.step(OperationAnswered(asked[0].token, Answer(200))))[1].link
        == "/t/256"
    )
