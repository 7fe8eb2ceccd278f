"""Errors of the client, with the conclusions that a caller may draw."""

from collections.abc import Mapping
from typing import Any

from docstore.errors import Picklable


class ClientError(Picklable):
    """A request did not succeed."""


class BadAddress(ClientError):
    """The URL or link is malformed, or no node is at the URL: no node got the request."""


class BadToken(ClientError):
    """The token cannot be read or is malformed: no node got the request."""


class Unreachable(ClientError):
    """No node accepted a connection, so nothing was sent; or no node answered a read."""

    @property
    def why(self) -> str:
        """Return why the connection failed."""
        return str(self)


class Unanswered(ClientError):
    """The request was sent but its outcome is unknown: an update may have happened."""

    outcome = "unknown"

    def __init__(self, why: str) -> None:
        """why: why the outcome is unknown."""
        super().__init__(f"{why}; it may have happened")
        self.why = why


class RequestFailed(ClientError):
    """A node answered with a problem; the subclasses below say which kind.

    status: HTTP status. code: `errorCode` of the problem. outcome: "not_applied", or "unknown" if
    the request may have taken effect.
    """

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        detail = str(problem.get("detail") or problem.get("title") or f"status {status}")
        super().__init__(f"{status} {detail}")
        self.status = status
        self.problem = problem
        self.code = str(problem.get("errorCode", ""))
        self.outcome = str(problem.get("outcome", "unknown"))


class Invalid(RequestFailed):
    """The request is malformed, too large, or against the factory's schema: do not repeat it."""


class NotAllowed(RequestFailed):
    """The user is unknown (401) or has no permission (403)."""


class NotFound(RequestFailed):
    """No such document (404), or it was deleted or compacted (410)."""


class Conflict(RequestFailed):
    """The state does not allow the request: it exists, or a later holder has written (409)."""


class PreconditionFailed(RequestFailed):
    """The document has another version than `if_match` says (412), or a condition lacks (428)."""


class Unavailable(RequestFailed):
    """No node could serve the request at present (429, 503, or a read without an answer)."""


class Undecided(RequestFailed, Unanswered):
    """A node could not learn in time whether an update took effect (504 `outcome: unknown`)."""


_MEANINGS: Mapping[int, type[RequestFailed]] = {
    **dict.fromkeys((400, 405, 406, 411, 413, 414, 415, 416, 422, 431), Invalid),
    **dict.fromkeys((401, 403), NotAllowed),
    **dict.fromkeys((404, 410), NotFound),
    409: Conflict,
    **dict.fromkeys((412, 428), PreconditionFailed),
    **dict.fromkeys((408, 425, 429, 502, 503, 504, 507), Unavailable),
}


def failed_with(status: int, problem: dict[str, Any]) -> RequestFailed:
    """Return the error for an answer, of the class that says what it means."""
    kind = _MEANINGS.get(status, RequestFailed)
    if status >= 500 and problem.get("outcome") == "unknown":
        kind = Undecided
    return kind(status, problem)


class StateUnusable(ClientError):
    """The state file of a voter is damaged, belongs to another member or cannot be written.

    The voter stops voting.
    """


class Closed(ClientError):
    """The producer was closed before this record was sent, so it was not appended."""


class Lost(ClientError):
    """A lease, a lock or a turn is lost: another process may hold it."""


class Differs(ClientError):
    """The object that exists under the name has other settings than the caller has asked for."""


def check_same(link: str, asked: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise Differs unless the object at a link has every setting that the caller has asked for."""
    differing = [
        f"{name} is {found.get(name)!r}, asked for was {value!r}"
        for name, value in asked.items()
        if found.get(name) != value
    ]
    if differing:
        raise Differs(
            f"{link} already exists with other settings: "
            f"{'; '.join(differing)}; give the settings that it has, use "
            "another name, or change it first"
        )


def is_passing(error: ClientError) -> bool:
    """Say whether a retry later may succeed: no node answered, or a node could not at present."""
    if isinstance(error, RequestFailed):
        return error.status >= 500
    return isinstance(error, (Unreachable, Unanswered))
