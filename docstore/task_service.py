"""Tasks: documents whose stage only moves forward, which the next owner resumes.

    from docstore.service import Change, Request, State
    from docstore.task_service import TaskService, finished

    class Resizes(TaskService):
        path = "/resizes"
        kind = "example:Resize"

        def step(self, task: State, request: Request) -> State:
            if task["left"] == 0:
                return finished(task, {"images": task["count"]})
            request.after_commit(Change("PATCH", "/images/...", {"resizedBy": request.link}))
            return task | {"left": task["left"] - 1}

A POST creates the task. The owner calls `step` for each step; the document, its timers and its
effects are all that a task is, so another owner goes on where the last one stopped. A client or a
worker may PATCH the task: to add members, to finish, fail or cancel it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

from docstore.service import UNCHANGED, Refused, Request, Service, State, Timer, Unchanged

__all__ = ["Stage", "TaskService", "failed", "finished"]

STEP, DEADLINE = "step", "deadline"
"""Names of the timers of a task."""
SET_BY_SERVICE = ("stage", "result", "failure")


class Stage(StrEnum):
    """Stage of a task, in its member `stage`."""

    CREATED = "CREATED"
    STARTED = "STARTED"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


AFTER: Mapping[str, tuple[Stage, ...]] = {
    Stage.CREATED: (Stage.STARTED, Stage.FAILED, Stage.CANCELLED),
    Stage.STARTED: (Stage.FINISHED, Stage.FAILED, Stage.CANCELLED),
}
"""Stage -> the stages that may follow; none follows the others."""


def finished(task: State, result: Any = None) -> State:
    """Return a task that has ended well. result: any JSON value, in its member `result`."""
    return task | {"stage": str(Stage.FINISHED), "result": result}


def failed(task: State, failure: str) -> State:
    """Return a task that has ended badly. failure: the reason, in its member `failure`."""
    return task | {"stage": str(Stage.FAILED), "failure": failure}


class TaskService(Service):
    """A factory of tasks. Subclasses set a path and override `step`."""

    methods = ("POST", "PATCH", "DELETE")

    step_every_s: ClassVar[float] = 1.0
    """Seconds between two steps of a started task; 0: a step follows only a PATCH."""

    time_limit_s: ClassVar[float] = 3600.0
    """Seconds from its creation after which a task that has not ended fails."""

    keep_ended_s: ClassVar[float] = 24 * 3600.0
    """Seconds from its end after which a task is deleted; 0: never."""

    def step(self, task: State, request: Request) -> State | Unchanged:
        """Return the task after its next step. Called when it is started, and then again and again.

        May leave effects, and end the task: see `finished` and `failed`. Any exception is logged,
        and the step is repeated later, until the time limit.
        """
        return UNCHANGED

    def on_create(self, body: State, request: Request) -> State:
        """Create a task, whose first step follows at once."""
        request.start_timer(STEP, after_s=0)
        request.start_timer(DEADLINE, after_s=self.time_limit_s)
        return {name: value for name, value in body.items() if name not in SET_BY_SERVICE} | {
            "stage": str(Stage.CREATED)
        }

    def on_patch(self, state: State, body: State, request: Request) -> State | Unchanged:
        """Merge a change, and move the stage if it names one; a started task makes a step."""
        before, stage = state["stage"], body.get("stage", state["stage"])
        if before not in AFTER:
            if stage == before:
                return UNCHANGED
            raise Refused(409, f"the task is {before}: its stage cannot become {stage}")
        if stage != before and stage not in AFTER[before]:
            raise Refused(409, f"the stage {before} cannot be followed by {stage!r:.40}")
        if stage not in (Stage.FINISHED, Stage.FAILED) and not body.keys().isdisjoint(
            ("result", "failure")
        ):
            raise Refused(400, "result and failure need the stage FINISHED or FAILED")
        after = state | body
        if after["stage"] == Stage.STARTED:
            stepped = self.step(after, request)
            after = after if isinstance(stepped, Unchanged) else stepped
        return self._moved(before, after, request)

    def on_timer(self, state: State, timer: Timer, request: Request) -> State | Unchanged:
        """Make the next step of a task, or end it at its time limit."""
        before = state["stage"]
        if timer.name == DEADLINE:
            return self._moved(before, failed(state, "the time limit is over"), request)
        state["stage"] = str(Stage.STARTED)
        after = self.step(state, request)
        return self._moved(before, state if isinstance(after, Unchanged) else after, request)

    def _moved(self, before: str, after: State, request: Request) -> State:
        """Return a task after a change, with the timers of its stage."""
        stage = after.get("stage")
        if stage != before and stage not in AFTER[before] and stage != Stage.FINISHED:
            raise ValueError(f"the stage {before} cannot be followed by {stage!r}")
        if stage == Stage.STARTED:
            if STEP not in request.timers and self.step_every_s:
                request.start_timer(STEP, every_s=self.step_every_s)
            return after
        for name in (STEP, DEADLINE):
            request.stop_timer(name)
        if self.keep_ended_s:
            expires_us = request.now_us + round(self.keep_ended_s * 1e6)
            after = after | {"documentExpirationTimeMicros": expires_us}
        return after
