"""Every error that the world can do to us, in three families that say what may be concluded.

*refused*: nothing changed, a retry is safe. *undecided*: it may have happened. *broken*: we can
no longer vouch for ourselves and the process must end. Status, code and retry advice live on
the class, so that no place that raises or renders has to decide them again.

Errors of *requests* inside the protocol are values (`model/operation.py`), since they travel
between nodes; the exceptions here are for the edges: HTTP input, storage, configuration, start-up.
"""

from enum import StrEnum
from typing import Any, ClassVar


class Family(StrEnum):
    """What the one who meets an error may conclude."""

    REFUSED = "not_applied"
    UNDECIDED = "unknown"
    BROKEN = "broken"


class Picklable(Exception):
    """The root of exceptions that go through pickle, whatever their classes are made from."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Make it anew out of what it holds: `__init__` takes other things than `args`."""
        return _remade, (type(self), self.args), vars(self)


def _remade(kind: type[Picklable], args: tuple[Any, ...]) -> Picklable:
    return kind.__new__(kind, *args)


class DocstoreError(Picklable):
    """The root: every error of ours has a status, a code and a family."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"
    family: ClassVar[Family] = Family.BROKEN


class BadRequest(DocstoreError):
    """The request cannot be understood: syntax, types, ranges. Nothing was looked at yet."""

    status = 400
    code = "malformed"
    family = Family.REFUSED


class Unauthenticated(DocstoreError):
    """Nobody says who asks: there is no token, or none that holds. One error for all faults."""

    status = 401
    code = "unauthenticated"
    family = Family.REFUSED

    def __init__(self) -> None:
        super().__init__("a token that holds is needed: Authorization: Bearer")


class Forbidden(DocstoreError):
    """Whoever asks is known, and has no grant for it."""

    status = 403
    code = "forbidden"
    family = Family.REFUSED


class NotFound(DocstoreError):
    """There is no such service, document or version."""

    status = 404
    code = "not-found"
    family = Family.REFUSED


class SnapshotGone(DocstoreError):
    """Some of what a snapshot or a feed needs has been let go of."""

    status = 410
    code = "snapshot-gone"
    family = Family.REFUSED


class TooManyRequests(DocstoreError):
    """Whoever asks has made as many requests as he may; later ones are taken again."""

    status = 429
    code = "too-many-requests"
    family = Family.REFUSED


class TooEarly(DocstoreError):
    """This copy has not come so far yet; ask another one, or later."""

    status = 425
    code = "not-caught-up"
    family = Family.REFUSED


class MethodNotAllowed(DocstoreError):
    """The thing exists, but does not take this method; `allow` lists those that it takes."""

    allow: str = ""
    status = 405
    code = "method-not-allowed"
    family = Family.REFUSED


class NotAcceptable(DocstoreError):
    """We cannot answer in any of the media types that the client accepts."""

    status = 406
    code = "not-acceptable"
    family = Family.REFUSED


class TooSlow(DocstoreError):
    """The body did not arrive in time."""

    status = 408
    code = "body-timeout"
    family = Family.REFUSED


class CrossSite(DocstoreError):
    """A page of another site speaks, through the browser of somebody who can reach this node."""

    status = 403
    code = "cross-site"
    family = Family.REFUSED


class Conflict(DocstoreError):
    """The state of the thing does not allow this."""

    status = 409
    code = "conflict"
    family = Family.REFUSED


class TooLarge(DocstoreError):
    """Body, state, path or nesting is over its limit."""

    status = 413
    code = "too-large"
    family = Family.REFUSED


class UnsupportedMedia(DocstoreError):
    """The content type or encoding is none of ours."""

    status = 415
    code = "unsupported-media-type"
    family = Family.REFUSED


class ExpectationFailed(DocstoreError):
    """An `Expect` header other than 100-continue."""

    status = 417
    code = "expectation-failed"
    family = Family.REFUSED


class Misdirected(DocstoreError):
    """The request is meant for another host."""

    status = 421
    code = "misdirected"
    family = Family.REFUSED


class ForeignHost(Misdirected):
    """The Host is none of this node's names: perhaps a page's own, that leads here."""

    code = "foreign-host"


class Unavailable(DocstoreError):
    """Nothing was proposed: no owner, no quorum, or no room right now. Retry is safe."""

    status = 503
    code = "unavailable"
    family = Family.REFUSED


class NoQuorum(Unavailable):
    """This node does not hear a majority of the members: what it knows may be old."""

    code = "no-quorum"


class Undecided(DocstoreError):
    """The deadline passed after a proposal left: it may or may not have happened."""

    status = 504
    code = "undecided"
    family = Family.UNDECIDED


class StoreError(DocstoreError):
    """Anything that storage reports."""


class DiskFull(StoreError):
    """There is no room; the batch was rolled back and what was there before is intact."""

    status = 503
    code = "disk-full"
    family = Family.REFUSED


class StoreBroken(StoreError):
    """The disk failed us: what it holds is not known. The process ends with exit code 74."""

    code = "store-broken"


class StoreInUse(StoreBroken):
    """Another process has the directory: no disk has failed. Exit code 2."""


class StoreDamaged(StoreBroken):
    """What is on the disk is wrong, and a restart will not mend it: the disk must be replaced."""

    code = "store-damaged"


class BadConfig(DocstoreError):
    """A configuration key or value that we cannot start with. Exit code 2."""

    code = "bad-config"
    family = Family.REFUSED
