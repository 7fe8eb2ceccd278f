"""The tester: services run as their users would test them."""

import pytest

from docstore.model.service import Refusal
from docstore.service import (
    UNCHANGED,
    Change,
    Record,
    Refused,
    Request,
    Service,
    State,
    Timer,
    Unchanged,
    Webhook,
)
from docstore.service_tester import EffectRefused, ServiceTester


class Reservations(Service):
    """The example of docs/services.md, with effects."""

    path = "/reservations"

    def on_create(self, body: State, request: Request) -> State:
        if "seat" not in body:
            raise Refused(400, "which seat?")
        request.start_timer("expire", after_s=600)
        request.start_timer("remind", every_s=60)
        return {"state": "held", "reminders": 0, "seat": body["seat"]}

    def on_patch(self, state: State, body: State, request: Request) -> State:
        for name in list(request.timers):
            request.stop_timer(name)
        request.after_commit(Change("PATCH", f"/seats/{state['seat']}", {"by": request.link}))
        request.after_commit(Record("sold", {"seat": state["seat"]}))
        request.after_commit(Webhook("https://receiver/", {"paid": request.link}))
        return state | {"state": "paid"}

    def on_timer(self, state: State, timer: Timer, request: Request) -> State | Unchanged:
        if timer.name == "remind":
            return state | {"reminders": state["reminders"] + 1}
        request.stop_timer("remind")
        return state | {"state": "expired"}


@pytest.fixture
def tester() -> ServiceTester:
    return ServiceTester(Reservations(), factories=["/seats"])


def test_timers_fire_as_time_passes(tester: ServiceTester) -> None:
    made = tester.post("/reservations", {"seat": 7})
    tester.run(59)
    assert tester.get(made.link)["reminders"] == 0
    tester.run(2)
    assert tester.get(made.link)["reminders"] == 1
    tester.run(3600 * 24 * 30)
    assert tester.get(made.link) == {"state": "expired", "reminders": 9, "seat": 7}
    assert tester.timers(made.link) == {}


def test_effects_are_delivered_once_and_in_order(tester: ServiceTester) -> None:
    tester.put("/seats/7", {})
    made = tester.post("/reservations", {"seat": 7, "documentSelfLink": "a"})
    tester.patch(made.link, {})
    assert tester.records("sold") == [], "not before time passes"
    tester.run(1)
    assert tester.get("/seats/7") == {"by": "/reservations/a"}
    assert tester.records("sold") == [
        {"key": "/reservations/a", "value": {"seat": 7}, "headers": {}}
    ]
    assert tester.webhooks == [("https://receiver/", {"paid": "/reservations/a"})]
    states = tester.versions(made.link)
    assert [each["state"] for each in states] == ["held", "paid", "paid"]


@pytest.mark.parametrize("target", ["/seats/7", "sold", "https://receiver/"])
def test_failures_are_repeated_and_owners_change(tester: ServiceTester, target: str) -> None:
    tester.put("/seats/7", {})
    made = tester.post("/reservations", {"seat": 7})
    tester.fail(target, times=3)
    tester.patch(made.link, {})
    tester.run(0.4)
    assert tester.webhooks == []
    tester.change_owner()
    tester.run(3)
    assert (len(tester.records("sold")), len(tester.webhooks)) == (1, 1)
    assert len(tester.versions("/seats/7")) == 2
    other = tester.post("/reservations", {"seat": 8})
    tester.change_owner()
    tester.run(61)
    assert tester.get(other.link)["reminders"] == 1


def test_refusals_and_errors_are_raised(tester: ServiceTester) -> None:
    with pytest.raises(Refused, match="which seat"):
        tester.post("/reservations", {})
    with pytest.raises(Refusal, match="takes POST, PUT, PATCH") as wrong:
        tester.delete("/reservations/a")
    assert wrong.value.status == 405
    with pytest.raises(LookupError):
        tester.get("/reservations/a")
    made = tester.post("/reservations", {"seat": 7})
    tester.patch(made.link, {})
    with pytest.raises(EffectRefused, match="/seats/7 is refused: 404"):
        tester.run(1)


class Faulty(Service):
    path = "/faulty"

    def on_create(self, body: State, request: Request) -> State:
        request.start_timer("x", after_s=1)
        return {"expires": False}

    def on_patch(self, state: State, body: State, request: Request) -> State | Unchanged:
        if "expires_s" in body:
            expires_us = request.now_us + body["expires_s"] * 1_000_000
            return state | {"documentExpirationTimeMicros": expires_us}
        return UNCHANGED if not body else state | {"n": body["n"]}

    def on_timer(self, state: State, timer: Timer, request: Request) -> State:
        raise ZeroDivisionError("of a timer")


def test_the_exception_of_a_handler_comes_to_the_test() -> None:
    tester = ServiceTester(Faulty())
    made = tester.post("/faulty")
    with pytest.raises(KeyError, match="n"):
        tester.patch(made.link, {"m": 1})
    assert tester.patch(made.link, {}).version == 0
    with pytest.raises(ZeroDivisionError, match="of a timer"):
        tester.run(2)


def test_documents_expire() -> None:
    tester = ServiceTester(Faulty())
    made = tester.post("/faulty")
    tester.patch(made.link, {"expires_s": 100})
    with pytest.raises(ZeroDivisionError):
        tester.run(99)
    assert tester.get(made.link)
    tester.run(2)
    with pytest.raises(LookupError):
        tester.get(made.link)
