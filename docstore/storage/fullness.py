"""Whether the disk is full, and what is taken all the same.

It is full from when the tables found no room until there is enough for the ballast again. The
ballast is given back then, and is more than the tables need for what the journal holds. What they
do not need is for what may not wait: promises, so that somebody owns a slot and is read from; and
for a while rows, so that replicas that are all full come to one end of their logs. Whoever makes
rows asks for `is_full` and makes none.

So a part of the ballast is left to the tables, whatever comes: promises alone can use the half that
rows leave, and nothing the last eighth.
"""

from collections.abc import Callable, Sequence

from docstore.errors import StoreBroken
from docstore.storage.ballast import Room
from docstore.storage.replication_log import SaveCursor, Stand
from docstore.storage.store import SaveConfiguration, SaveSlot, Write

KEPT, KEPT_FROM_ROWS = 1 / 8, 1 / 2
"""Shares of the ballast that promises leave to the tables, and that everything else does."""
WITHOUT_ROOM_S = 5.0
"""So long the tables may find no room for what the journal holds, the ballast given back."""

_PROMISE = SaveSlot | SaveConfiguration | Stand | SaveCursor
"""One line of a table that is there already."""


class Fullness:
    """What is known of the room on the disk."""

    def __init__(self, ballast: Room, changed: Callable[[bool], None]) -> None:
        """Begin by taking the ballast. changed: told whether it is full, when that changes."""
        self.is_full = False
        self._ballast = ballast
        self._changed = changed
        self._stuck_at: float | None = None
        """Since when the tables have found no room."""
        self._is_hopeless = False
        """They found none though the ballast was given back: by a quota, which nobody sees."""
        self._is_reserving = False
        self.reserved(there_is=ballast.reserve())

    @property
    def is_unknown(self) -> bool:
        """Return whether it turns out in a moment what room there is: commits wait for that."""
        return (self.is_stuck and not self._is_hopeless) or self._is_reserving

    @property
    def is_stuck(self) -> bool:
        """Return whether the tables found no room when they last looked for some."""
        return self._stuck_at is not None

    def may_take(self, writes: Sequence[Write], size: int) -> bool:
        """Return whether there is room for a commit on a full disk.

        size: bytes that the tables will lack with it.
        """
        if self._is_hopeless:
            return False
        is_promise = all(isinstance(each, _PROMISE) for each in writes)
        return self._ballast.left(size) >= (KEPT if is_promise else KEPT_FROM_ROWS)

    def begin_to_reserve(self) -> None:
        """Note that the ballast is about to be taken: room comes and goes until it is."""
        self._is_reserving = True

    def reserved(self, *, there_is: bool) -> None:
        """Note whether there was room for the ballast: the disk is full no more then."""
        self._is_reserving = False
        self._note(there_is=there_is)

    def found_room(self) -> None:
        """Note that the tables have found what they needed."""
        self._stuck_at, self._is_hopeless = None, False

    def found_none(self, now: float) -> bool:
        """Give the ballast back, since the tables found no room; return whether there was any.

        Raises StoreBroken when that was not enough for too long.
        """
        self._note(there_is=False)
        if self._stuck_at is None:
            self._stuck_at = now
        elif now - self._stuck_at > WITHOUT_ROOM_S:
            raise StoreBroken("there is no room to take in what the journal holds")
        was_held = self._ballast.release()
        self._is_hopeless = not was_held
        return was_held

    def _note(self, *, there_is: bool) -> None:
        if self.is_full == there_is:
            self.is_full = not there_is
            self._changed(self.is_full)
