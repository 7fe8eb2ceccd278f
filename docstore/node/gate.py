"""The gate for requests, from a node's start to its end.

    closed --the group is known--> open --drain--> leaving --slots given away--> closed

While it is closed, requests get 503 at once: nothing was begun, and another node may serve them.
While the node leaves, requests are served on their way to the new owners.
"""

import asyncio
from collections.abc import Callable, Sequence

from docstore.errors import Unavailable
from docstore.model.operation import Answer, Operation
from docstore.node.running import RunningNode


class Gate:
    """Lets requests through to the running node, while there is one."""

    def __init__(self, why_not: Callable[[], str]) -> None:
        """why_not: returns the reason why this node does not know its group."""
        self.running: RunningNode | None = None
        self._why_not = why_not
        self._undeclared: Callable[[], str] = str
        self._leaving = False
        self._closed = False

    def open(self, running: RunningNode, undeclared: Callable[[], str]) -> None:
        """Let requests in.

        undeclared: names the services of this node that are not declared yet, "" if all are.
        """
        self.running, self._undeclared = running, undeclared

    def leave(self) -> None:
        """Report the node as not ready, and continue to serve requests."""
        self._leaving = True

    def close(self) -> None:
        self._leaving = self._closed = True

    def submit(self, operation: Operation, timeout_s: float) -> "asyncio.Future[Answer]":
        if self.running is None or self._closed:
            future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            future.set_result(self._not_ready())
            return future
        return self.running.driver.submit(operation, timeout_s)

    def submit_batch(
        self, operations: Sequence[Operation], timeout_s: float
    ) -> "asyncio.Future[list[Answer]]":
        if self.running is None or self._closed or not operations:
            future: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
            future.set_result([self._not_ready() for _ in operations])
            return future
        return self.running.driver.submit_batch(operations, timeout_s)

    def _not_ready(self) -> Answer:
        why = "this node is stopping" if self._closed else "the group is not known yet"
        return Answer(503, "not-ready", why)

    def inside(self) -> RunningNode:
        """Return the running node. Raises Unavailable before the group is known."""
        if self.running is None:
            raise Unavailable("the group is not known yet: " + self._why_not())
        return self.running

    def ready(self) -> tuple[bool, str]:
        """Say whether the node can serve, and if not, why."""
        if self._leaving:
            return False, "draining"
        if self.running is None:
            return False, self._why_not()
        ready, why = self.running.status.ready()
        why = why or self._undeclared()
        return ready and not why, why
