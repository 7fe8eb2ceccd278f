"""Exceptions, in three families by what the caller may conclude.

*refused*: nothing changed, a retry is safe. *undecided*: the update may have happened. *broken*:
the node cannot trust its state, and the process must end. Status, code and family are attributes of
the class, so code that raises or renders an error need not choose them.

Errors of requests inside the protocol are values (`model/operation.py`), because they travel
between nodes. The exceptions are for the edges: HTTP input, storage, configuration, start-up.
"""

from enum import StrEnum
from typing import Any, ClassVar


class Family(StrEnum):
    """The conclusion that a caller may draw from an error."""

    REFUSED = "not_applied"
    UNDECIDED = "unknown"
    BROKEN = "broken"


class Picklable(Exception):
    """The root of exceptions that can be pickled, whatever arguments `__init__` takes."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild from `args` and attributes, because `__init__` may take other arguments."""
        return _remade, (type(self), self.args), vars(self)


def _remade(kind: type[Picklable], args: tuple[Any, ...]) -> Picklable:
    return kind.__new__(kind, *args)


class DocstoreError(Picklable):
    """The root of all errors: each has a status, a code and a family."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"
    family: ClassVar[Family] = Family.BROKEN


class NotApplied(DocstoreError):
    """Nothing changed: the caller may repeat the request."""

    family = Family.REFUSED


class BadRequest(NotApplied):
    """The request is malformed: syntax, types or ranges. No state was read yet."""

    status = 400
    code = "malformed"


class IndexNeeded(BadRequest):
    """A query would look at too many documents, and an index would spare it that."""

    code = "index-needed"


class Unauthenticated(NotApplied):
    """The request has no token, or an invalid one. One error for all faults of a token."""

    status = 401
    code = "unauthenticated"

    def __init__(self) -> None:
        super().__init__("a token that holds is needed: Authorization: Bearer")


class Forbidden(NotApplied):
    """The caller is authenticated, but has no grant for this request."""

    status = 403
    code = "forbidden"


class NotFound(NotApplied):
    """There is no such service, document or version."""

    status = 404
    code = "not-found"


class Hidden(NotFound):
    """The caller may not read this: the answer is that it does not exist."""


class SnapshotGone(NotApplied):
    """Versions that a snapshot or a feed needs have been compacted."""

    status = 410
    code = "snapshot-gone"


class TooManyRequests(NotApplied):
    """The caller has used up its request quota; the node accepts requests again later."""

    status = 429
    code = "too-many-requests"


class TooEarly(NotApplied):
    """This replica has not caught up to the requested point; ask another one, or retry later."""

    status = 425
    code = "not-caught-up"


class MethodNotAllowed(NotApplied):
    """The resource exists, but does not accept this method; `allow` lists the accepted ones."""

    allow: str = ""
    status = 405
    code = "method-not-allowed"


class NotAcceptable(NotApplied):
    """The node cannot answer in any media type that the client accepts."""

    status = 406
    code = "not-acceptable"


class TooSlow(NotApplied):
    """The body did not arrive in time."""

    status = 408
    code = "body-timeout"


class CrossSite(NotApplied):
    """A page of another site sent the request, through the browser of one of its visitors."""

    status = 403
    code = "cross-site"


class Conflict(NotApplied):
    """The state of the resource does not allow the request."""

    status = 409
    code = "conflict"


class TooLarge(NotApplied):
    """The body, state, path or nesting exceeds its limit."""

    status = 413
    code = "too-large"


class UnsupportedMedia(NotApplied):
    """The content type or encoding is not supported."""

    status = 415
    code = "unsupported-media-type"


class ExpectationFailed(NotApplied):
    """The request has an `Expect` header other than 100-continue."""

    status = 417
    code = "expectation-failed"


class Misdirected(NotApplied):
    """The request is meant for another host."""

    status = 421
    code = "misdirected"


class ForeignHost(Misdirected):
    """The Host header is none of this node's names, as in DNS rebinding by a page."""

    code = "foreign-host"


class Unavailable(NotApplied):
    """Nothing was proposed: no owner, no quorum, or no room right now. Retry is safe."""

    status = 503
    code = "unavailable"


class NoQuorum(Unavailable):
    """This node does not hear a majority of the members, so its state may be outdated."""

    code = "no-quorum"


class Undecided(DocstoreError):
    """The deadline passed after a proposal was sent: the update may have happened."""

    status = 504
    code = "undecided"
    family = Family.UNDECIDED


class StoreError(DocstoreError):
    """The root of storage errors."""


class DiskFull(StoreError):
    """The disk is full; the batch was rolled back and earlier data is intact."""

    status = 503
    code = "disk-full"
    family = Family.REFUSED


class StoreBroken(StoreError):
    """The disk failed and its content is unknown. The process ends with exit code 74."""

    code = "store-broken"


class StoreInUse(StoreBroken):
    """Another process uses the directory; the disk is fine. Exit code 2."""


class StoreDamaged(StoreBroken):
    """The data on disk is damaged. A restart does not help: the disk must be replaced."""

    code = "store-damaged"


class BadConfig(NotApplied):
    """A configuration key or value is invalid, and the node cannot start. Exit code 2."""

    code = "bad-config"
