"""When documents existed, surely and perhaps: what a walk or a count must show, and may.

Each link is written by one client, which creates the document once and deletes it once at most.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.sim.checkers import INFINITE


@dataclass(slots=True)
class Life:
    """One document: when its creation and its deletion were requested, and acknowledged."""

    link: str
    born_from: float = INFINITE
    born_by: float = INFINITE
    gone_from: float = INFINITE
    gone_by: float = INFINITE

    def was_there(self, start: float, end: float) -> bool:
        """Say whether it existed all the time."""
        return self.born_by <= start and self.gone_from >= end

    def may_have_been(self, start: float, end: float) -> bool:
        """Say whether it may have existed at some time."""
        return self.born_from <= end and self.gone_by >= start


def wrong_walk(lives: Iterable[Life], links: list[str], start: float, end: float) -> Iterator[str]:
    """Yield the problems of the links of all pages of a walk, in their order."""
    seen = Counter(links)
    for life in lives:
        times = seen.pop(life.link, 0)
        if times != 1 and life.was_there(start, end):
            yield f"{life.link} was {times} times in the walk from {start} to {end}"
        elif times > 1 or (times and not life.may_have_been(start, end)):
            yield f"{life} was {times} times in the walk from {start} to {end}"
    yield from (f"{link} was never created" for link in seen)
    if links != sorted(links):
        yield "a walk is not in order"


def wrong_count(lives: Iterable[Life], count: int, start: float, end: float) -> Iterator[str]:
    """Yield the problems of a count of documents."""
    every = list(lives)
    least = sum(life.was_there(start, end) for life in every)
    most = sum(life.may_have_been(start, end) for life in every)
    if not least <= count <= most:
        yield f"{count} documents, not {least} to {most}, from {start} to {end}"
