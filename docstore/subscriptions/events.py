"""What happens to a subscription while its node delivers: the answers to `effects.py`."""

from dataclasses import dataclass

from docstore.services.subscriptions import Mark, Subscription


@dataclass(frozen=True, slots=True)
class Began:
    """This node owns the subscription's document, which says this."""

    subscription: Subscription


@dataclass(frozen=True, slots=True)
class Came:
    """What there is to be told: lines of JSON, in their order; none for nothing new.

    until: the mark once they are taken.
    """

    lines: bytes
    rows: int
    until: Mark


@dataclass(frozen=True, slots=True)
class Unread:
    """What there is could not be read for now."""

    why: str


@dataclass(frozen=True, slots=True)
class HistoryGone:
    """History was let go of that the mark needs. earliest: from where there is a feed."""

    why: str
    earliest: str


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The document was read. is_same: it is still as known, and this node its owner."""

    is_same: bool
    may_read: bool
    """Whoever has made it may still read all that it is about."""


@dataclass(frozen=True, slots=True)
class Called:
    """The receiver was called. status: its answer, 0 for none; why there is none."""

    status: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Saved:
    """The document says what was to be said."""


@dataclass(frozen=True, slots=True)
class Unsaved:
    """It does not, or nobody knows: somebody else has changed it, or nobody answered."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The document is as it was: nothing can be written for now."""


@dataclass(frozen=True, slots=True)
class Woken:
    """The time is over, or there may be news."""

    leaves: bool = False
    """This node gives its documents away."""


Event = (
    Began | Came | Unread | HistoryGone | Confirmed | Called | Saved | Unsaved | Unchanged | Woken
)
