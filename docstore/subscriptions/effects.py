"""Effects of a delivery. Each is answered by an event, Leave by none.

Read, Confirm and Wait are answered by Woken, at once, where this node is to leave the subscription.
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
    """Read the document as a majority confirms it; answered by Confirmed, or ReadFailed."""


@dataclass(frozen=True, slots=True)
class Call:
    """Send the receiver these lines; answered by Called. mark, until: before them and behind."""

    lines: bytes
    mark: Mark
    until: Mark


@dataclass(frozen=True, slots=True)
class Save:
    """Change the document, if it is as known; answered by Saved, Unsaved or Unchanged.

    since: where only the mark moves, the one that it has to be at; else None.
    """

    change: State
    since: Mark | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Answer with Woken at a time."""

    until: float
    for_news: bool = False
    """Whether to wake as soon as there may be something new to read."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Stop here: the owner of the document continues from the mark in it."""


Effect = Read | Confirm | Call | Save | Wait | Leave
