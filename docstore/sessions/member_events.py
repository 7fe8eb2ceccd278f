"""What reaches a member of a group or role, and what it asks for. See `member.py`."""

from typing import NamedTuple

from docstore.ownership.by_induction import Event as Happening
from docstore.sessions.group_messages import Reply, Request


class Answered(NamedTuple):
    """What came back; reply: None if nobody answered. stamp: when the request was sent."""

    number: int
    reply: Reply | None
    stamp: float


class Finished(NamedTuple):
    """Whoever was told that a partition is revoked has finished: it may be given up."""

    partition: str


class LeaveAsked(NamedTuple):
    """Take part no more. drain: go on until others have what this member has."""

    drain: bool = False


class Tick(NamedTuple):
    """Time has passed."""


class Say(NamedTuple):
    """Send a request, once; answered by Answered with the same number."""

    number: int
    request: Request


class Tell(NamedTuple):
    """Tell whoever leads by this member. Of Revoked: answered by Finished."""

    happening: Happening


class Ended(NamedTuple):
    """This member takes part no more. why: "left", or why it was refused."""

    why: str


MemberEvent = Answered | Finished | LeaveAsked | Tick
MemberEffect = Say | Tell | Ended
