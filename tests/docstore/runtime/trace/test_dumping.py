"""A driver logs its last steps when an invariant is broken, and continues."""

from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from docstore.documents.effects import Effect
from docstore.documents.events import BarrierAsked, Event, SlotCorrupted
from docstore.model.operation import Operation
from docstore.runtime.trace.context import TRACEPARENT
from docstore.runtime.trace.lines import line, traces_of
from docstore.runtime.trace.trace import CAUSES_MAX, STEPS_DUMPED, Causes
from docstore.services.registry import declaration_link
from tests.docstore.alone import LINK, SmallDisk, alone


async def test_an_alarm_logs_the_last_steps_once() -> None:
    driver, _ = await alone(SmallDisk())
    try:
        for _ in range(2 * STEPS_DUMPED):
            await driver.submit(
                Operation(verb="PUT", link=LINK, body=b'{"name": "x"}', creates=True), 5.0
            )
        with capture_logs() as logs:
            driver.feed(SlotCorrupted(1))
        assert logs[0]["event"] == "alarm"
        assert [each["event"] for each in logs[1:]] == ["trace"] * STEPS_DUMPED
        numbers = [each["number"] for each in logs[1:]]
        assert numbers == sorted(numbers)
        assert any("Requested" in each["step"] and LINK in each["step"] for each in logs[1:])
        assert {each["why"] for each in logs[1:]} == {logs[0]["what"]}
        with capture_logs() as again:
            driver.feed(SlotCorrupted(1))
        assert [each["event"] for each in again] == ["alarm"]
        assert any(line(each).startswith("Alarm what=slot 1") for each in driver.recorder.steps())
    finally:
        await driver.stop()


async def test_an_alarm_that_cannot_be_shown_does_not_stop_other_effects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver, replica = await alone(SmallDisk())
    try:
        await driver.submit(
            Operation(verb="PUT", link=LINK, body=b'{"name": "x"}', creates=True), 5.0
        )

        def fail(*step: Any) -> None:
            raise TypeError("nothing that has a length")

        monkeypatch.setattr(driver.recorder, "steps", fail)
        with capture_logs() as logs:
            driver.feed(SlotCorrupted(1))
        await driver.stored()  # The effects after the alarm were performed.
        assert not replica.core.logs[1].full
        assert [each["event"].split(":")[0] for each in logs] == ["alarm", "a step cannot be kept"]
    finally:
        await driver.stop()


async def test_effects_of_many_requests_are_in_no_trace() -> None:
    driver, _ = await alone(SmallDisk())
    try:
        seen: list[str] = []
        driver._publish = lambda row: seen.append(TRACEPARENT.get())
        link = declaration_link("/notes")
        await driver.submit(Operation(verb="GET", link=link), 5.0)  # Its slot is open now.
        TRACEPARENT.set("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        declared = Operation(verb="POST", link=link, body=b'{"path": "/notes"}')
        assert (await driver.submit(declared, 5.0)).status == 201
        assert seen == [""]
        [asked] = [each for each in driver.recorder.steps() if "verb=POST" in line(each)]
        assert traces_of(asked) == ["4bf92f3577b34da6a3ce929d0e0e4736"]
    finally:
        TRACEPARENT.set("")
        await driver.stop()


def test_dumps_have_a_maximum_number_of_causes() -> None:
    causes = Causes()
    assert all(causes.is_first(f"slot {number}") for number in range(CAUSES_MAX))
    assert not causes.is_first("one more")


async def test_a_failing_machine_logs_its_last_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver, replica = await alone(SmallDisk())
    await driver.submit(Operation(verb="GET", link=LINK), 5.0)

    def fail(event: Event, now: float) -> Sequence[Effect]:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(replica, "step", fail)
    with capture_logs() as logs, pytest.raises(ZeroDivisionError):
        driver.feed(BarrierAsked(0.1))
    assert logs[-1]["step"] == "BarrierAsked seconds=0.1"
    assert "ZeroDivisionError" in logs[-1]["why"]
    monkeypatch.undo()
    await driver.stop()


async def test_a_step_that_cannot_be_kept_is_performed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver, _ = await alone(SmallDisk())

    def fail(*step: Any) -> None:
        raise KeyError("an event that nobody has heard of")

    try:
        monkeypatch.setattr(driver.recorder, "note", fail)
        with capture_logs() as logs:
            put = Operation(verb="PUT", link=LINK, body=b'{"name": "x"}', creates=True)
            assert (await driver.submit(put, 5.0)).status == 201
        assert [(each["event"], each["error"]) for each in logs] == [
            ("a step cannot be kept", "KeyError('an event that nobody has heard of')")
        ]
    finally:
        await driver.stop()
