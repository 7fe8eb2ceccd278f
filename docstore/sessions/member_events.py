"""Events that reach a member of a group or role, and its effects. See `member.py`."""

from typing import NamedTuple

from docstore.ownership.by_induction import Event as Happening
from docstore.sessions.group_messages import Reply, Request


class Answered(NamedTuple):
    """Reply to a request, None if none came.

    stamp: when the request was sent.
    """

    number: int
    reply: Reply | None
    stamp: float


class Finished(NamedTuple):
    """The work on a revoked partition has finished, so it may be released."""

    partition: str


class LeaveAsked(NamedTuple):
    """Request of the application to leave.

    drain: whether to go on until other members have its partitions.
    """

    drain: bool = False


class Tick(NamedTuple):
    """Time has passed."""


class SendRequest(NamedTuple):
    """Send a request, once; answered by Answered with the same number."""

    number: int
    request: Request


class Report(NamedTuple):
    """Report an event of leadership to the application, which answers Revoked with Finished."""

    happening: Happening


class Ended(NamedTuple):
    """The process is not a member any more.

    why: "left", or why it was refused.
    """

    why: str


MemberEvent = Answered | Finished | LeaveAsked | Tick
MemberEffect = SendRequest | Report | Ended
