"""Whether the disk is full, and which commits a full disk still takes.

The disk counts as full from the moment when the tables find no room, until there is room for the
ballast again. As soon as it is full, the store releases the ballast, which is larger than the space
that the tables need for the journal's entries. The surplus serves commits that must not wait:
promises, so that slots have an owner and can be read; and for a while rows, so that replicas that
are all full reach the same end of their logs. A caller that makes new rows must first check
`is_full`.

Part of the ballast always remains for the tables: rows may use its first half, and promises all but
the last eighth.
"""

from collections.abc import Callable, Sequence

from docstore.errors import StoreBroken
from docstore.storage.ballast import Room
from docstore.storage.replication_log import SaveCursor, SetStatus
from docstore.storage.store import SaveConfiguration, SaveSlot, Write

KEPT, KEPT_FROM_ROWS = 1 / 8, 1 / 2
"""Shares of the ballast that must stay free for the tables: after a promise, and after other
commits."""
WITHOUT_ROOM_S = 5.0
"""Seconds for which the tables may find no room before the store breaks."""

_PROMISE = SaveSlot | SaveConfiguration | SetStatus | SaveCursor
"""Writes that replace one line of a table."""


class Fullness:
    """The state of the room on the disk."""

    def __init__(self, ballast: Room, changed: Callable[[bool], None]) -> None:
        """Reserve the ballast. changed: callback with `is_full`, when that changes."""
        self.is_full = False
        self._ballast = ballast
        self._changed = changed
        self._stuck_at: float | None = None
        """Time since which the tables have found no room."""
        self._is_hopeless = False
        """Whether the tables found no room even without the ballast: no call reports the limit of a
        quota."""
        self._is_reserving = False
        self.reserved(there_is=ballast.reserve())

    @property
    def is_unknown(self) -> bool:
        """Return whether it is not yet known if the disk has room; commits wait meanwhile."""
        return (self.is_stuck and not self._is_hopeless) or self._is_reserving

    @property
    def is_stuck(self) -> bool:
        """Return whether the last transaction of the tables found no room."""
        return self._stuck_at is not None

    def may_take(self, writes: Sequence[Write], size: int) -> bool:
        """Return whether there is room for a commit on a full disk.

        size: bytes that the tables will lack, this commit included.
        """
        if self._is_hopeless:
            return False
        is_promise = all(isinstance(each, _PROMISE) for each in writes)
        return self._ballast.left(size) >= (KEPT if is_promise else KEPT_FROM_ROWS)

    def begin_to_reserve(self) -> None:
        """Note that a reservation of the ballast begins.

        It uses up space for a moment even if it fails.
        """
        self._is_reserving = True

    def reserved(self, *, there_is: bool) -> None:
        """Note whether there was room for the ballast; if so, the disk is not full any more."""
        self._is_reserving = False
        self._note(there_is=there_is)

    def found_room(self) -> None:
        """Note that a transaction of the tables found room."""
        self._stuck_at, self._is_hopeless = None, False

    def found_none(self, now: float) -> bool:
        """Release the ballast after the tables found no room; return whether there was any.

        Raises StoreBroken if the tables have found no room for WITHOUT_ROOM_S.
        """
        self._note(there_is=False)
        if self._stuck_at is None:
            self._stuck_at = now
        elif now - self._stuck_at > WITHOUT_ROOM_S:
            raise StoreBroken(
                "the disk is full: the tables have no room for the journal's entries; make room and"
                " start again"
            )
        was_held = self._ballast.release()
        self._is_hopeless = not was_held
        return was_held

    def _note(self, *, there_is: bool) -> None:
        if self.is_full == there_is:
            self.is_full = not there_is
            self._changed(self.is_full)
