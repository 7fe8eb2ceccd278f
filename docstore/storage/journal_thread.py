"""The thread that writes to the journal: one entry, one call of the system, one hop back.

It does nothing else, so that an entry never waits behind SQLite.
"""

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Protocol

from docstore.storage.files import Files
from docstore.storage.ring import Entry

Written = Callable[[OSError | None], None]


class JournalWriter(Protocol):
    """Writes entries in the order in which they are handed over."""

    def write(self, entry: Entry, then: Written) -> None:
        """Write an entry; `then` is called in the loop with what went wrong, or None."""

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
        while (handed := self._entries.get()) is not None:
            entry, then = handed
            failure: OSError | None = None
            try:
                self._files.write(entry.file, entry.offset, entry.parts)
            except OSError as error:
                failure = error
            if self._loop.is_closed():
                return  # Nobody is left to be told.
            self._loop.call_soon_threadsafe(then, failure)
