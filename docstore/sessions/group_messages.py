"""Requests of members of groups and roles to their coordinator, and its replies.

A request is repeated until it is answered. Repeating is safe: a join names its member, a pulse its
number. Values are plain, so that they travel between nodes and as JSON alike.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from docstore.services.group_document import MemberDetails


class Join(NamedTuple):
    """Request to take part. Answered by Joined once that is decided, or by Refused.

    member: an id that no other process makes. former: the id of the same process before it was
    fenced. The process has dropped all its partitions, so its former session is ended at once.
    """

    member: str
    about: MemberDetails
    former: str = ""


class Pulse(NamedTuple):
    """Sign of life of a member with its list of partitions.

    Answered by Confirmed, Changed, Again, or Fenced. number: greater than that of the pulse before.
    generation: the newest that the member has received and acted on. listing: number of the list;
    owned: the list, None if it is the last one sent. answered: number of the newest pulse whose
    reply the member has received, 0 for none.
    """

    member: str
    number: int
    generation: int
    listing: int
    owned: Sequence[str] | None = None
    answered: int = 0


class Wait(NamedTuple):
    """Request to be woken when the member's share differs from that of a generation and list.

    Answered by Woken.
    """

    member: str
    generation: int
    listing: int


class Leave(NamedTuple):
    """Request to leave. Answered by Left once that is decided.

    drain: whether the member goes on until other members have its partitions, and is answered then.
    """

    member: str
    drain: bool = False


class Joined(NamedTuple):
    """Reply: the process is a member, with these settings.

    Replies to pulses list its partitions.
    """

    generation: int
    settings: Mapping[str, Any]
    parts: Mapping[str, int]


class Confirmed(NamedTuple):
    """Reply: the member has exactly the partitions of its list. It proves each of them."""

    listing: int


class Changed(NamedTuple):
    """Reply: the member's share differs from its list.

    assigned: partition -> token of those that the member has and is to keep; it proves those that
    were in the pulse's list. kept: others of the list, which no other member leads yet; it proves
    them too. revoked: those to give up, when their work has finished but within revokeMs. lost:
    those that the member no longer has.
    """

    generation: int
    assigned: Mapping[str, int]
    kept: Sequence[str] = ()
    revoked: Sequence[str] = ()
    lost: Sequence[str] = ()


class Again(NamedTuple):
    """Reply: the coordinator does not know the list, so the member must send it whole. No proof."""


class Woken(NamedTuple):
    """Reply: the share may have changed, so the member should send a pulse."""


class Left(NamedTuple):
    """Reply: the process is no longer a member."""


class Fenced(NamedTuple):
    """Reply: the process is not a member, or must stop being one.

    why: "unknown", or "fenced" by revokeMs.
    """

    why: str


class Refused(NamedTuple):
    """Reply: the request is not possible.

    status: HTTP status.
    """

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
    """Return the reply that `plain` has turned into these values."""
    name, *fields = values
    found: Reply = _REPLIES[name](*fields)
    return found


def shown(reply: Reply) -> dict[str, Any]:
    """Return a reply as clients read it: its kind, and its members beside it."""
    return {"kind": type(reply).__name__, **reply._asdict()}


def read_shown(page: Mapping[str, Any]) -> Reply:
    """Return the reply that `shown` has turned into this page."""
    fields = {name: each for name, each in page.items() if name != "kind"}
    found: Reply = _REPLIES[page["kind"]](**fields)
    return found


def kind_of(link: str, verb: str) -> str:
    """Return the kind of a call to the coordinator of a group; `verb` as in `coordinating.py`."""
    return f"{link.split('/')[2]}-{verb}"
