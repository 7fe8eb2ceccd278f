"""An update that is executed only if a patch would leave another document unchanged."""

from typing import Any

import pytest

from docstore.documents.events import Requested
from docstore.model import json
from docstore.model.operation import NOT_GIVEN, Answer, Operation
from docstore.model.service import Refusal, ServiceOptions, State
from docstore.storage.store import Newest, NewestOfMany
from tests.docstore.documents.trio import Trio

GATE, LINK = "/t/gate", "/t/a"


class Gates:
    """A service whose PATCH asks for a gate to be open; an open gate stays as it is."""

    checks = False
    options = ServiceOptions(path="/t", kind="t")

    def check(self, state: State) -> None:
        """Refuse nothing."""

    def patch(self, state: State, change: State) -> State | None:
        if state.get("locked"):
            raise Refusal("the gate is locked", status=410, code="locked")
        return None if state.get("open") else {**state, "open": True}


class Gated(Trio):
    """A group whose documents are gates."""

    def __init__(self) -> None:
        super().__init__()
        assert self.run_until(self.owner, 10)
        for replica in self.replicas.values():
            replica.core.service_for = lambda link, since: Gates()
        self._asked = 0

    def ask(self, operation: Operation) -> Answer:
        """Return the answer of the owner."""
        self._asked += 1
        before = len(self.answers)
        self.feed(self.owner(), Requested(self._asked, operation, self.now + 5))
        assert self.run_until(lambda: len(self.answers) > before, 6)
        answer: Answer = self.answers[-1][1].outcome
        return answer

    def put(self, link: str, state: Any) -> None:
        assert self.ask(_put(link, state)).is_success

    def given(self) -> Answer:
        """Return the answer to an update that depends on the gate."""
        return self.ask(_put(LINK, {}, given=(GATE, b"{}")))

    @property
    def core(self) -> Any:
        return self.replicas[self.owner()].core


def _put(link: str, state: Any, **members: Any) -> Operation:
    return Operation(verb="PUT", link=link, body=json.dump(state), creates=True, **members)


def test_an_update_is_executed_where_the_other_document_need_not_change() -> None:
    group = Gated()
    group.put(GATE, {"open": True})
    answer = group.given()
    assert (answer.status, answer.row and answer.row.link) == (201, LINK)
    ends = {name: len(disk.answer(Newest(0, GATE, 99))) for name, disk in group.disks.items()}
    assert set(ends.values()) == {1}, "the gate has no row of its own"


@pytest.mark.parametrize("state", [{"open": False}, None])
def test_nothing_happens_where_the_other_document_would_change_or_is_missing(state: Any) -> None:
    group = Gated()
    if state is not None:
        group.put(GATE, state)
    answer = group.given()
    assert (answer.status, answer.code) == ((412, NOT_GIVEN) if state else (404, "not-found"))
    assert group.ask(Operation(verb="GET", link=LINK)).status == 404


def test_a_refusal_of_the_other_document_is_the_answer_and_marked_as_such() -> None:
    group = Gated()
    group.put(GATE, {"locked": True})
    answer = group.given()
    assert (answer.status, answer.code, list(answer.statuses)) == (410, "locked", [410])
    assert group.ask(Operation(verb="GET", link=LINK)).status == 404


def test_an_undecided_row_of_the_other_document_counts() -> None:
    """Judge by a row that only the owner has yet, as it precedes the update in the log."""
    group = Gated()
    group.put(GATE, {"open": True})
    group.cut_off = {name for name in group.replicas if name != group.owner()}
    owner, before = group.owner(), len(group.answers)
    group.feed(owner, Requested(90, _put(GATE, {"locked": True}), group.now + 5))
    given = _put(LINK, {}, given=(GATE, b"{}"))
    group.feed(owner, Requested(91, given, group.now + 5))
    assert len(group.answers) == before
    group.cut_off = set()
    assert group.run_until(lambda: len(group.answers) >= before + 2, 6)
    answers = {each.request: each.outcome for _, each in group.answers[before:]}
    assert answers[90].is_success
    assert answers[91].status == 410


@pytest.mark.parametrize("forgotten", [[GATE], [LINK], [GATE, LINK]])
def test_documents_that_are_not_cached_are_read_first(forgotten: list[str]) -> None:
    group = Gated()
    group.put(GATE, {"open": True})
    group.put(LINK, {})
    cache = group.core.logs[0].term.cache
    for link in forgotten:
        del cache[link]
    group.queries.clear()
    answer = group.given()
    assert (answer.status, answer.row and answer.row.version) == (200, 1)
    assert 1 <= len(group.queries) <= 2
    assert all(isinstance(each, Newest | NewestOfMany) for each in group.queries)
    assert not cache.pinned


def test_a_retry_is_answered_although_the_other_document_has_changed() -> None:
    group = Gated()
    group.put(GATE, {"open": True})
    operation = _put(LINK, {}, given=(GATE, b"{}"), key="k")
    assert group.ask(operation).status == 201
    group.put(GATE, {"locked": True})
    assert group.ask(operation).status == 201
    assert group.given().status == 410
