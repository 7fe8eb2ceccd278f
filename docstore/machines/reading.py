"""Reads of the documents that this node owns, AT_ONCE at a time."""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from docstore.machines.updates import Updates
from docstore.machines.view import MachineView
from docstore.model.document import Row
from docstore.model.operation import Answer

AT_ONCE = 64


class PagedReads:
    """Reads documents of one kind, a few at a time."""

    def __init__(self, view: MachineView, updates: Updates, learn: Callable[[Row], None]) -> None:
        """learn: called with each row; a document that could not be read is read again."""
        self._view = view
        self._updates = updates
        self._learn = learn
        self._left: deque[str] = deque()
        self._under_way = 0

    @property
    def is_done(self) -> bool:
        return not self._left and not self._under_way

    def begin(self, links: Iterable[str]) -> None:
        """Read these documents in this order, instead of those that are left."""
        self._left = deque(links)
        self.go_on()

    def go_on(self) -> None:
        """Start the next reads; the machine must call this often."""
        while self._left and self._under_way < AT_ONCE:
            link = self._left.popleft()
            if self._view.owns(link):
                self._under_way += 1
                self._updates.read(link, partial(self._read, link))

    def _read(self, link: str, answer: Answer) -> None:
        self._under_way -= 1
        if answer.status >= 500:
            self._left.append(link)
        elif answer.row is not None:
            self._learn(answer.row)
