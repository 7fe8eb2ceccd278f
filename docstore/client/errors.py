"""Errors of the client, each with what its caller may conclude."""

from collections.abc import Mapping
from typing import Any

from docstore.errors import Picklable


class ClientError(Picklable):
    """A request has not succeeded."""


class BadAddress(ClientError):
    """A node's URL or a document's link is not one, or no node is there: none was asked."""


class BadToken(ClientError):
    """The token cannot be read, or is none: no node was asked."""


class Unreachable(ClientError):
    """None of the nodes took the connection, so nothing was sent; or none answered a read."""

    @property
    def why(self) -> str:
        """Return what went wrong on the way."""
        return str(self)


class Unanswered(ClientError):
    """The request was sent and its answer did not come: an update may have happened."""

    def __init__(self, why: str) -> None:
        """why: what went wrong on the way."""
        super().__init__(f"{why}; it may have happened")
        self.why = why


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


class Closed(ClientError):
    """Its producer was left before this was sent: nothing of it has happened."""


class Lost(ClientError):
    """A lease, a lock or a turn is lost: another process may hold it."""


class Differs(ClientError):
    """The object that exists under the name has other settings than the caller has asked for."""


def check_same(link: str, asked: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise Differs unless what is at a link has every setting that the caller has asked for."""
    differing = [
        f"{name} is {found.get(name)!r}, asked for was {value!r}"
        for name, value in asked.items()
        if found.get(name) != value
    ]
    if differing:
        raise Differs(
            f"{link} is there with other settings: {'; '.join(differing)}; ask for what it has,"
            " take another name, or change it first"
        )


def is_passing(error: ClientError) -> bool:
    """Say whether a failure may be over soon: no node answers, or the one that does cannot."""
    if isinstance(error, RequestFailed):
        return error.status >= 500
    return isinstance(error, (Unreachable, Unanswered))
