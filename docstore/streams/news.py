"""Readers of several partitions at once, which wait until one of them has new records.

A fetch of one partition waits in `fetching.py`. A client of Kafka names all its partitions in one
request, and wants an answer when the first has records. It fetches again after that answer.
"""

from collections.abc import Sequence

from docstore.streams.core import Core
from docstore.streams.effects import News
from docstore.streams.events import NewsAsked, NewsForgotten
from docstore.streams.leading import Leading, Leads
from docstore.streams.log import PartitionLogs

Position = tuple[str, int]
"""Name of a partition, and offset of the first record that is new."""


class WaitingForNews:
    """Questions that wait for records of the partitions that this node leads."""

    def __init__(self, core: Core, logs: PartitionLogs, leads: Leads) -> None:
        self._core = core
        self._logs = logs
        self._leads = leads
        self._open: dict[int, tuple[NewsAsked, Sequence[Position]]] = {}
        self._waiting: dict[str, dict[int, int]] = {}
        """Name of a partition -> request -> offset of the first new record."""

    def take(self, event: NewsAsked | NewsForgotten) -> None:
        """Add a question, or drop one that was given up."""
        if isinstance(event, NewsAsked):
            self._ask(event)
        else:
            self._forget(event.request)

    def _ask(self, event: NewsAsked) -> None:
        """Let a question wait; answer at once if there is news already."""
        positions = []
        for link, offset in event.positions:
            log = self._logs.newest(link)
            leading = self._leads.get(log.name) if log is not None else None
            if leading is None or not leading.log.start <= offset or _is_new(leading, offset):
                self._core.give(event.request, News())
                return
            positions.append((leading.log.name, offset))
        self._open[event.request] = event, positions
        for name, offset in positions:
            self._waiting.setdefault(name, {})[event.request] = offset

    def raised(self, leading: Leading) -> None:
        """Answer the questions for which a partition has records, or another leader."""
        name = leading.log.name
        is_led = self._leads.get(name) is leading
        for request, offset in list(self._waiting.get(name, {}).items()):
            if not is_led or _is_new(leading, offset):
                self._answer(request)

    def tick(self) -> None:
        """Answer the questions whose deadline has passed."""
        now = self._core.now
        for request, (event, _) in list(self._open.items()):
            if event.deadline <= now:
                self._answer(request)

    def _forget(self, request: int) -> None:
        """Drop a question, if it is still open."""
        _, positions = self._open.pop(request, (None, ()))
        for name, _ in positions:
            waiting = self._waiting.get(name, {})
            waiting.pop(request, None)
            if not waiting:
                self._waiting.pop(name, None)

    def _answer(self, request: int) -> None:
        self._forget(request)
        self._core.give(request, News())


def _is_new(leading: Leading, offset: int) -> bool:
    return leading.log.high > offset
