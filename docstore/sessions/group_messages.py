"""Requests of members of groups and roles to their coordinator, and its replies.

A request is repeated until it is answered. Repeating is safe: a join names its member, a pulse its
number. Values are plain, so that they travel between nodes and as JSON alike.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from docstore.services.group_document import MemberDetails


class Join(NamedTuple):
    """Let me take part. Answered by Joined once that is decided, or by Refused.

    member: an id that no other process makes. former: the id of the same process before it was
    fenced. It has dropped all its partitions, so its former session is ended at once.
    """

    member: str
    about: MemberDetails
    former: str = ""


class Pulse(NamedTuple):
    """I am here, and I have these. Answered by Confirmed, Changed, Again, or Fenced.

    number: grows from one to the next. generation: the newest that I have received and acted
    on. listing: number of my list of partitions; owned: the list, None for the one last said.
    answered: the newest of my pulses whose reply I have taken, 0 for none.
    """

    member: str
    number: int
    generation: int
    listing: int
    owned: Sequence[str] | None = None
    answered: int = 0


class Wait(NamedTuple):
    """Tell me when my part is not what it was as of this generation and list. By Woken."""

    member: str
    generation: int
    listing: int


class Leave(NamedTuple):
    """I take part no more. Answered by Left once that is decided.

    drain: I go on until others have what I have; then the answer comes.
    """

    member: str
    drain: bool = False


class Joined(NamedTuple):
    """You are a member, with these settings. Replies to pulses list your partitions."""

    generation: int
    settings: Mapping[str, Any]
    parts: Mapping[str, int]


class Confirmed(NamedTuple):
    """All partitions of your list are yours, and there are no others: a proof for each."""

    listing: int


class Changed(NamedTuple):
    """Your part is another one.

    assigned: partition -> token of all that is yours and is to stay; of those a proof for each
    that was in the pulse's list. kept: others of your list, which no other member leads yet: a
    proof too. revoked: to be given up, in your own time but before revokeMs. lost: not yours any
    more.
    """

    generation: int
    assigned: Mapping[str, int]
    kept: Sequence[str] = ()
    revoked: Sequence[str] = ()
    lost: Sequence[str] = ()


class Again(NamedTuple):
    """I do not know your list (any more): say it whole. No proof."""


class Woken(NamedTuple):
    """Send a pulse: something may have changed."""


class Left(NamedTuple):
    """You are no member any more."""


class Fenced(NamedTuple):
    """You are no member, or will not be one. why: "unknown", or "fenced" by revokeMs."""

    why: str


class Refused(NamedTuple):
    """Not possible. status: as in HTTP."""

    status: int
    code: str
    detail: str


Request = Join | Pulse | Wait | Leave
Reply = Joined | Confirmed | Changed | Again | Woken | Left | Fenced | Refused


def plain(reply: Reply) -> list[Any]:
    """Return a reply as plain values."""
    return [type(reply).__name__, *reply]


_REPLIES: Mapping[str, type[Any]] = {
    each.__name__: each
    for each in (Joined, Confirmed, Changed, Again, Woken, Left, Fenced, Refused)
}


def reply_of(values: Sequence[Any]) -> Reply:
    """Return the reply that `plain` made these values of."""
    name, *fields = values
    found: Reply = _REPLIES[name](*fields)
    return found


def shown(reply: Reply) -> dict[str, Any]:
    """Return a reply as clients read it: its kind, and its members beside it."""
    return {"kind": type(reply).__name__, **reply._asdict()}


def read_shown(page: Mapping[str, Any]) -> Reply:
    """Return the reply that `shown` made this of."""
    fields = {name: each for name, each in page.items() if name != "kind"}
    found: Reply = _REPLIES[page["kind"]](**fields)
    return found


def kind_of(link: str, verb: str) -> str:
    """Return the kind of a call to the coordinator of a group; `verb` as in `coordinating.py`."""
    return f"{link.split('/')[2]}-{verb}"
