"""Group commit and queries of a machine.

A message about the machine's own disk (a promise, an acknowledgement) goes through `when_durable`
or `accepted`, and leaves only after the current batch is Persisted. This enforces rule P3 for all
machines in one place.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from docstore.machines.core import Outlet
from docstore.machines.effects import Persist, Read

A = TypeVar("A")
L = TypeVar("L")
Q = TypeVar("Q")
R = TypeVar("R")
W = TypeVar("W")


@dataclass(slots=True)
class DiskBatch(Generic[L, A, W]):
    """The writes of one turn, and the messages to send once they are durable."""

    token: int
    writes: list[W] = field(default_factory=list)
    appended: list[A] = field(default_factory=list)
    """Rows or batches appended to logs and not yet in `writes`."""
    saved: dict[Any, L] = field(default_factory=dict)
    """Key -> log whose record is stored at the end of the turn."""
    ends: dict[Any, tuple[L, int, int]] = field(default_factory=dict)
    """Key -> (log, its number of cuts, its end once this batch is durable)."""
    accepted: dict[Any, Any] = field(default_factory=dict)
    """Acknowledgements, by their receiver."""
    then: list[Callable[[], None]] = field(default_factory=list)


class MachineDisk(ABC, Generic[L, A, W, Q, R]):
    """The current batch, batches on their way to the disk, and pending queries."""

    def __init__(self, outlet: Outlet[Any], append: Callable[[list[A]], W]) -> None:
        """append: makes one write of all appended rows or batches."""
        self._outlet = outlet
        self._append = append
        self._reads: dict[int, Callable[[R], None]] = {}
        self.batch: DiskBatch[L, A, W] = DiskBatch(outlet.next_token())
        self.unfinished: deque[DiskBatch[L, A, W]] = deque()

    def store(self, write: W) -> None:
        """Add a write to the batch, after the rows or batches appended before it."""
        batch = self.batch
        if batch.appended:
            batch.writes.append(self._append(batch.appended))
            batch.appended = []
        batch.writes.append(write)

    def when_durable(self, then: Callable[[], None]) -> None:  # Tests replace this.
        """Run `then` when the writes of this turn, and all before it, are durable."""
        self.batch.then.append(then)

    @property
    def has_more(self) -> bool:
        """Say whether the batch has something to flush."""
        batch = self.batch
        return bool(batch.writes or batch.appended or batch.saved or batch.accepted or batch.then)

    def flush(self) -> None:  # Tests replace this.
        batch = self.batch
        if batch.appended:
            batch.writes.append(self._append(batch.appended))
            batch.appended = []
        if batch.saved:
            batch.writes.extend(self._records(batch.saved.values()))
        if batch.writes:
            self._outlet.out.append(Persist(batch.token, batch.writes))
        elif not (batch.accepted or batch.then or batch.ends):
            return
        self.unfinished.append(batch)
        self.batch = DiskBatch(self._outlet.next_token())
        if len(self.unfinished) == 1 and not batch.writes:
            self.persisted(batch.token)

    def persisted(self, token: int) -> None:
        """Release the batches up to `token`, and batches without writes after them."""
        while self.unfinished:
            batch = self.unfinished[0]
            if batch.token > token and batch.writes:
                return
            self.unfinished.popleft()
            self._release(batch)
            for then in batch.then:
                then()

    @abstractmethod
    def _records(self, logs: Iterable[L]) -> Iterable[W]:
        """Return the writes that store the records of logs."""

    @abstractmethod
    def _release(self, batch: DiskBatch[L, A, W]) -> None:
        """Note how far logs are durable now, and send the acknowledgements of a batch."""

    # Queries

    def read(self, query: Q, then: Callable[[R], None]) -> None:
        """Query the disk; `then` runs with the committed result."""
        token = self._outlet.next_token()
        self._reads[token] = then
        self._outlet.out.append(Read(token, query))

    def answer_read(self, token: int, result: R) -> None:
        """Run the continuation of a query; after a reset there is none."""
        then = self._reads.pop(token, None)
        if then is not None:
            then(result)
