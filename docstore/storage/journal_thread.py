"""The thread that writes to the journal: one entry, one call of the system, one hop back.

It does nothing else, so that an entry never waits behind SQLite. After a failure it writes nothing
any more: an entry behind one that is torn makes a start take that one for acknowledged, and lost.
"""

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Protocol

from docstore.storage.ring import Entry, Files

Written = Callable[[Exception | None], None]


class JournalWriter(Protocol):
    """Writes entries in the order in which they are handed over."""

    def write(self, entry: Entry, then: Written) -> None:
        """Write an entry; `then` is called in the loop with what went wrong, or None.

        After a failure nothing is written: all that is handed over later has failed like the first.
        """

    def close(self) -> None:
        """Finish what was handed over."""


class JournalThread:
    """A `JournalWriter` on a thread of its own."""

    def __init__(self, files: Files) -> None:
        """Start the thread."""
        self._files = files
        self._loop = asyncio.get_running_loop()
        self._entries: SimpleQueue[tuple[Entry, Written] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def write(self, entry: Entry, then: Written) -> None:
        """Write an entry; `then` is called in the loop with what went wrong, or None."""
        self._entries.put((entry, then))

    def close(self) -> None:
        """Finish what was handed over and end the thread."""
        self._entries.put(None)
        self._thread.join()

    def _run(self) -> None:
        failure: Exception | None = None
        while (handed := self._entries.get()) is not None:
            entry, then = handed
            failure = failure or self._failure_of(entry)
            if self._loop.is_closed():
                return  # Nobody is left to be told.
            self._loop.call_soon_threadsafe(then, failure)

    def _failure_of(self, entry: Entry) -> Exception | None:
        """Write an entry, and return what went wrong."""
        try:
            self._files.write(entry.file, entry.offset, entry.parts)
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever commits waits for it
            return error
        return None
