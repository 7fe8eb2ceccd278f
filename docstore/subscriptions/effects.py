"""Effects of a delivery. Each is answered by an event, except Leave.

Read, Confirm and Wait are answered by Woken, at once, if this node must leave the subscription.
"""

from dataclasses import dataclass

from docstore.model.service import State
from docstore.services.subscriptions import Mark


@dataclass(frozen=True, slots=True)
class Read:
    """Read up to `rows` changes after a mark.

    Answered by BatchReceived, ReadFailed or HistoryGone.
    """

    mark: Mark
    rows: int


@dataclass(frozen=True, slots=True)
class Confirm:
    """Read the document with a confirmation by a majority; answered by Confirmed or ReadFailed."""


@dataclass(frozen=True, slots=True)
class Call:
    """Send lines to the receiver; answered by Called. mark, until: before and after the lines."""

    lines: bytes
    mark: Mark
    until: Mark


@dataclass(frozen=True, slots=True)
class Save:
    """Change the document if it is unchanged; answered by Saved, Unsaved or Unchanged.

    since: the mark that the document must have, if only the mark moves; else None.
    """

    change: State
    since: Mark | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until a time; answered by Woken."""

    until: float
    for_news: bool = False
    """Whether to wake earlier if there may be changes to read."""


@dataclass(frozen=True, slots=True)
class Leave:
    """End the delivery on this node: the document's owner continues from its mark."""


Effect = Read | Confirm | Call | Save | Wait | Leave
