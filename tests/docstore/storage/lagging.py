"""A store whose tables lag behind: two ledgers, and what is between them in an overlay."""

from collections.abc import Collection, Sequence
from random import Random

from docstore.model.document import Row
from docstore.storage.ledger import Ledger
from docstore.storage.overlaid import Overlaid
from docstore.storage.overlay import Overlay
from docstore.storage.plan import Wait
from docstore.storage.store import Bounds, Query, Recovered, Result, Write


class Lagging:
    """The tables of a store, and its journal. What is read goes through `reads`.

    Each time the tables are asked they have followed some entries more than they are known to have,
    as a follower on a thread of its own would have them; at least those that were waited for.
    """

    def __init__(self, rng: Random, overlay: Overlay) -> None:
        self.overlay = overlay
        self.reads: Overlaid = Overlaid(overlay, self, self._wait)
        self._rng = rng
        self._moments = [Ledger()]  # As the tables were, are or will be after each entry.
        self._needed = 0

    def commit(self, writes: Sequence[Write]) -> None:
        """Make an entry durable."""
        ledger = self._moments[-1].copy()
        ledger.apply(writes)
        self._moments.append(ledger)
        self.overlay.add(len(self._moments) - 1, writes)

    def follow(self, entries: int) -> None:
        """Have the tables follow so many entries."""
        self.overlay.drop(min(self.overlay.followed + entries, self.last))

    @property
    def followed(self) -> int:
        """Return which entry the tables have followed at least."""
        return self.overlay.followed

    @property
    def last(self) -> int:
        """Return the number of the last entry."""
        return len(self._moments) - 1

    def tables(self, number: int) -> Ledger:
        """Return the tables as they are once they have followed an entry."""
        return self._moments[number]

    def at_some_moment(self, needed: int = 0) -> Ledger:
        """Return the tables as somebody finds them who asks when they have at least an entry."""
        return self._moments[self._rng.randint(max(needed, self.followed), self.last)]

    async def _wait(self, wait: Wait) -> None:
        assert self.overlay.followed < wait.number <= self.last
        self._needed = wait.number

    def _asked(self) -> Ledger:
        needed, self._needed = self._needed, 0
        return self.at_some_moment(needed)

    async def read(self, queries: Sequence[Query]) -> list[Result]:
        """Answer from the tables."""
        ledger = self._asked()
        return [ledger.answer(query) for query in queries]

    async def recover(self) -> Recovered:
        """Return what is in the tables."""
        return self._asked().recovered("", 1)

    async def links(
        self, prefix: str, after: str, limit: int, until: Bounds, *, level: int = 3
    ) -> list[tuple[int, str, int]]:
        """List from the tables."""
        return self._asked().links(prefix, after, limit, until, level=level)

    async def count(self, prefix: str, until: Bounds, *, level: int = 3) -> dict[int, int]:
        """Count in the tables."""
        return self._asked().count(prefix, until, level=level)

    async def below(self, prefix: str, slots: Collection[int]) -> list[Row]:
        """List from the tables."""
        return self._asked().below(prefix, slots)

    async def digests(self, slots: Sequence[int]) -> dict[int, tuple[int, int, str]]:
        """Return digests from the tables."""
        return self._asked().digests(slots)
