"""The thread that writes to the journal: one entry, one system call, one hop back.

It does nothing else, so that an entry never waits for SQLite. After a failure it writes no more
entries: with an entry after a torn one, a start would take the torn one for acknowledged and lost.
"""

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Protocol

from docstore.storage.ring import Entry, Files

Written = Callable[[Exception | None], None]


class JournalWriter(Protocol):
    """Writes entries in the order of the calls."""

    def write(self, entry: Entry, then: Written) -> None:
        """Write an entry, then call `then` in the loop with the error, or None.

        After a failure it writes nothing, and passes the first error to all later calls.
        """

    def close(self) -> None:
        """Finish the entries under way."""


class JournalThread:
    """A `JournalWriter` on a thread of its own."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._loop = asyncio.get_running_loop()
        self._entries: SimpleQueue[tuple[Entry, Written] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def write(self, entry: Entry, then: Written) -> None:
        self._entries.put((entry, then))

    def close(self) -> None:
        self._entries.put(None)
        self._thread.join()

    def _run(self) -> None:
        failure: Exception | None = None
        while (handed := self._entries.get()) is not None:
            entry, then = handed
            failure = failure or self._failure_of(entry)
            if self._loop.is_closed():
                return  # No caller waits in a loop that is closed.
            self._loop.call_soon_threadsafe(then, failure)

    def _failure_of(self, entry: Entry) -> Exception | None:
        """Write an entry and return its error, if any."""
        try:
            self._files.write(entry.file, entry.offset, entry.parts)
        except Exception as error:  # noqa: BLE001 - a commit waits for the result
            return error
        return None
