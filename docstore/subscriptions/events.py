"""Events of a subscription while its node delivers: the answers to `effects.py`."""

from dataclasses import dataclass

from docstore.services.subscriptions import Mark, SubscriptionState


@dataclass(frozen=True, slots=True)
class Began:
    """This node began to own the document of a subscription, in this state."""

    subscription: SubscriptionState


@dataclass(frozen=True, slots=True)
class BatchReceived:
    """Changes to deliver: lines of JSON in their order; none if nothing is new.

    until: the mark after the receiver has taken them.
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
    """The document was read. is_same: it is unchanged, and this node still owns it."""

    is_same: bool
    may_read: bool
    """Whether the subscription's creator may still read everything at its path."""


@dataclass(frozen=True, slots=True)
class Called:
    """The receiver was called. status: of its answer, 0 without one. why: the reason for 0."""

    status: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Saved:
    """The document was updated."""


@dataclass(frozen=True, slots=True)
class Unsaved:
    """The update failed or got no answer: another version may have come first."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The document is unchanged, because it cannot be written now."""


@dataclass(frozen=True, slots=True)
class Woken:
    """The time is over, or there may be changes."""

    leaves: bool = False
    """Whether this node must leave its documents to other owners."""


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
