"""What a client can be told, with what it may conclude."""

from typing import Any


class ClientError(Exception):
    """A request has not succeeded."""


class BadAddress(ClientError):
    """A node's URL or a document's link is not one. Nothing was sent."""


class Unreachable(ClientError):
    """None of the nodes took the connection. Nothing was sent."""


class Unanswered(ClientError):
    """The request was sent and its answer did not come: an update may have happened."""


class RequestFailed(ClientError):
    """The group answered with a problem.

    status: as in HTTP. code: for programs. outcome: "not_applied", or "unknown" when it may have
    happened.
    """

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        detail = str(problem.get("detail") or problem.get("title") or f"status {status}")
        super().__init__(f"{status} {detail}")
        self.status = status
        self.problem = problem
        self.code = str(problem.get("errorCode", ""))
        self.outcome = str(problem.get("outcome", "unknown"))


class StateUnusable(ClientError):
    """A voter's file is damaged, of another member, or cannot be written. It votes no more."""


class Lost(ClientError):
    """What we held is not ours any more: somebody else may hold it."""
