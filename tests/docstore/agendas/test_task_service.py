"""Tasks: their stages move forward, by steps that the next owner resumes."""

from collections.abc import Callable
from typing import Any

import pytest

from docstore.service import Change, Refused, Request, State, Unchanged
from docstore.service_tester import ServiceTester
from docstore.task_service import TaskService, failed, finished

ENDED = ("FINISHED", "FAILED", "CANCELLED")


class Copies(TaskService):
    """A task copies a text to some documents, one at each step."""

    path = "/copies"
    time_limit_s = 60.0
    keep_ended_s = 600.0

    def step(self, task: State, request: Request) -> State | Unchanged:
        done = task.get("done", 0)
        if task.get("wrong"):
            return failed(task, "it is wrong")
        if done == task["count"]:
            return finished(task, {"copies": done})
        request.after_commit(Change("PUT", f"/texts/{done}", {"text": task["text"]}))
        return task | {"done": done + 1}


@pytest.fixture
def tester() -> ServiceTester:
    return ServiceTester(Copies(), factories=["/texts"])


def made(tester: ServiceTester, **more: Any) -> str:
    return tester.post("/copies", {"text": "x", "count": 3} | more).link


def stages(tester: ServiceTester, link: str) -> list[str]:
    return list(dict.fromkeys(each["stage"] for each in tester.versions(link)))


def test_a_task_runs_step_by_step_to_its_result(tester: ServiceTester) -> None:
    link = made(tester, stage="FINISHED", result=1)
    assert "result" not in tester.get(link)
    assert tester.get(link)["stage"] == "CREATED"
    tester.run(10)
    assert stages(tester, link) == ["CREATED", "STARTED", "FINISHED"]
    assert tester.get(link)["result"] == {"copies": 3}
    assert [tester.get(f"/texts/{n}")["text"] for n in range(3)] == ["x", "x", "x"]
    assert tester.timers(link) == {}
    tester.run(700)
    with pytest.raises(LookupError):
        tester.get(link)


def test_the_next_owner_resumes_it(tester: ServiceTester) -> None:
    link = made(tester, count=8)
    for _ in range(8):
        tester.run(1)
        tester.change_owner()
    tester.run(4)
    assert tester.get(link)["result"] == {"copies": 8}
    dones = [each["done"] for each in tester.versions(link) if "done" in each]
    assert list(dict.fromkeys(dones)) == list(range(1, 9)), "no step twice, none left out"


def test_a_task_that_takes_too_long_fails(tester: ServiceTester) -> None:
    link = made(tester, count=1_000)
    tester.run(61)
    assert stages(tester, link) == ["CREATED", "STARTED", "FAILED"]
    assert tester.get(link)["failure"] == "the time limit is over"
    assert 50 < tester.get(link)["done"] <= 61


@pytest.mark.parametrize("body", [{"stage": "CANCELLED"}, {"stage": "FAILED", "failure": "no"}])
def test_a_client_ends_a_task_and_no_step_follows(tester: ServiceTester, body: State) -> None:
    link = made(tester)
    tester.run(1.2)
    tester.patch(link, body)
    tester.run(30)
    assert tester.get(link)["stage"] == body["stage"]
    assert tester.get(link)["done"] < 3
    for stage in ("CREATED", "STARTED", *ENDED):
        if stage != body["stage"]:
            with pytest.raises(Refused, match=f"is {body['stage']}"):
                tester.patch(link, {"stage": stage})
    assert tester.patch(link, body).version == tester.patch(link, {"a": 1}).version


def test_stages_only_move_forward(tester: ServiceTester) -> None:
    link = made(tester)
    with pytest.raises(Refused, match="CREATED cannot be followed by 'FINISHED'"):
        tester.patch(link, {"stage": "FINISHED"})
    tester.patch(link, {"stage": "STARTED"})
    for stage in ("CREATED", "odd", 7, None, ["STARTED"]):
        with pytest.raises(Refused):
            tester.patch(link, {"stage": stage})
    with pytest.raises(Refused, match="need the stage"):
        tester.patch(link, {"result": 7})
    tester.patch(link, {"wrong": True})
    assert (tester.get(link)["stage"], tester.get(link)["failure"]) == ("FAILED", "it is wrong")


def test_a_worker_finishes_a_task_without_steps_of_its_own() -> None:
    class Waits(TaskService):
        path = "/waits"
        step_every_s = 0

    tester = ServiceTester(Waits())
    link = tester.post("/waits", {"for": "worker"}).link
    tester.run(100)
    versions = len(tester.versions(link))
    assert (tester.get(link)["stage"], versions) == ("STARTED", 2)
    tester.patch(link, {"stage": "FINISHED", "result": [1, 2]})
    assert (tester.get(link)["stage"], tester.get(link)["result"]) == ("FINISHED", [1, 2])


@pytest.mark.parametrize("wrong", [lambda task: task | {"stage": "odd"}, lambda task: {"a": 1}])
def test_a_step_cannot_leave_the_stages(wrong: Callable[[State], State]) -> None:
    class Wrong(TaskService):
        path = "/wrong"

        def step(self, task: State, request: Request) -> State:
            return wrong(task)

    tester = ServiceTester(Wrong())
    link = tester.post("/wrong").link
    with pytest.raises(ValueError, match="cannot be followed"):
        tester.run(1)
    assert tester.get(link)["stage"] == "CREATED"
