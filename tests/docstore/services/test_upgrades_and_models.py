"""States of earlier revisions, and states as Pydantic models."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, Field

from docstore.model.document import EXPIRY
from docstore.model.service import Refusal
from docstore.model_service import ModelService
from docstore.service import UNCHANGED, Refused, Request, Service, State, Timer, Unchanged
from docstore.service_tester import ServiceTester

Upgrades = Mapping[int, Callable[[State], State]]


class First(Service):
    path = "/orders"

    def on_create(self, body: State, request: Request) -> State:
        return body

    def on_patch(self, state: State, body: State, request: Request) -> State | Unchanged:
        return state | body if body else UNCHANGED


def with_currency(state: State) -> State:
    return state | {"currency": "EUR"}


def with_total(state: State) -> State:
    return {"total": state.pop("sum"), **state}


class Third(First):
    revision = 3
    upgrades: ClassVar[Upgrades] = {2: with_currency, 3: with_total}


class Fourth(First):
    revision = 4
    upgrades: ClassVar[Upgrades] = {
        **Third.upgrades,
        4: lambda state: state | {"total": str(state["total"])},
    }


def test_a_stored_state_is_upgraded_when_it_is_written() -> None:
    tester = ServiceTester(First())
    link = tester.post("/orders", {"sum": 7}).link
    tester.use(Third())
    assert tester.get(link) == {"sum": 7}, "reads do not write"
    done = tester.patch(link, {})
    assert done.state == {"total": 7, "currency": "EUR", "schemaRevision": 3}
    assert tester.patch(link, {}).version == done.version, "and then nothing has changed"
    made = tester.post("/orders", {"total": 1, "schemaRevision": 9})
    assert made.state["schemaRevision"] == 3
    tester.use(Fourth())
    assert tester.patch(link, {"a": 1}).state["total"] == "7"


def test_an_older_class_refuses_a_newer_state() -> None:
    tester = ServiceTester(Fourth())
    link = tester.post("/orders", {"total": 7}).link
    tester.use(Third())
    with pytest.raises(Refusal, match=r"revision 4, and .*Third on the owner has 3") as refused:
        tester.patch(link, {})
    assert (refused.value.status, refused.value.code) == (503, "service-missing")


class Account(BaseModel):
    owner: str = ""
    balance: int = Field(default=0, ge=0)


class Accounts(ModelService):
    path = "/accounts"
    model = Account
    methods = ("POST", "PUT", "PATCH", "DELETE")

    def on_create(self, body: Account, request: Request) -> Account:
        request.start_timer("interest", every_s=60)
        return Account(owner=body.owner)

    def on_patch(self, state: Account, body: State, request: Request) -> Account | Unchanged:
        if not body:
            return UNCHANGED
        state.balance += body["amount"]
        return state

    def on_timer(self, state: Account, timer: Timer, request: Request) -> Account:
        return state.model_copy(update={"balance": state.balance + 1})


@pytest.fixture
def tester() -> ServiceTester:
    return ServiceTester(Accounts())


def test_handlers_get_and_return_models(tester: ServiceTester) -> None:
    made = tester.post("/accounts", {"owner": "ann", "balance": 99, "unknown": 1})
    assert made.state == {"owner": "ann", "balance": 0}
    assert tester.patch(made.link, {"amount": 5}).state["balance"] == 5
    assert tester.patch(made.link, {}).version == 1
    tester.run(61)
    assert tester.get(made.link)["balance"] == 6
    tester.delete(made.link)


@pytest.mark.parametrize("body", [{"owner": 7}, {"balance": -1}, {"balance": "x"}])
def test_a_body_that_does_not_fit_is_refused(tester: ServiceTester, body: State) -> None:
    for send, where in ((tester.post, "/accounts"), (tester.put, "/accounts/a")):
        with pytest.raises(Refused, match=next(iter(body))) as refused:
            send(where, body)
        assert refused.value.status == 422


def test_a_state_that_does_not_fit_is_refused(tester: ServiceTester) -> None:
    made = tester.post("/accounts", {})
    with pytest.raises(Refused, match="balance: Input should be greater"):
        tester.patch(made.link, {"amount": -1})


def test_a_model_keeps_the_time_of_expiry(tester: ServiceTester) -> None:
    at_us = tester.now_us + 100_000_000
    made = tester.post("/accounts", {"owner": "ann", EXPIRY: at_us})
    assert tester.patch(made.link, {"amount": 5}).state[EXPIRY] == at_us
    tester.run(101)
    with pytest.raises(LookupError):
        tester.get(made.link)


def test_a_handler_that_returns_no_model_fails() -> None:
    class Wrong(ModelService):
        path = "/wrong"
        model = Account

        def on_create(self, body: Account, request: Request) -> Any:
            return ("a", "tuple")

    with pytest.raises(TypeError, match="must return a model or a dict; got tuple"):
        ServiceTester(Wrong()).post("/wrong")
