"""Events of a subscription while its node delivers: the answers to `effects.py`."""

from dataclasses import dataclass

from docstore.services.subscriptions import Mark, SubscriptionState


@dataclass(frozen=True, slots=True)
class Began:
    """This node began to own the document of a subscription, in this state."""

    subscription: SubscriptionState


@dataclass(frozen=True, slots=True)
class BatchReceived:
    """Changes to deliver: lines of JSON, in their order; none for nothing new.

    until: the mark once they are taken.
    """

    lines: bytes
    rows: int
    until: Mark


@dataclass(frozen=True, slots=True)
class ReadFailed:
    """The changes could not be read for now."""

    why: str


@dataclass(frozen=True, slots=True)
class HistoryGone:
    """History after the mark was deleted. earliest: the position where the feed begins now."""

    why: str
    earliest: str


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The document was read. is_same: it is still as known, and this node its owner."""

    is_same: bool
    may_read: bool
    """Whether its creator may still read all of its path."""


@dataclass(frozen=True, slots=True)
class Called:
    """The receiver was called. status: of its answer, 0 for none. why: the reason for 0."""

    status: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Saved:
    """The document was updated."""


@dataclass(frozen=True, slots=True)
class Unsaved:
    """The document may not be updated: another version came first, or no answer did."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The document is unchanged: it cannot be written for now."""


@dataclass(frozen=True, slots=True)
class Woken:
    """The time is over, or there may be news."""

    leaves: bool = False
    """This node gives its documents away."""


Event = (
    Began
    | BatchReceived
    | ReadFailed
    | HistoryGone
    | Confirmed
    | Called
    | Saved
    | Unsaved
    | Unchanged
    | Woken
)
