"""After a restart: a retry finds the row of its first attempt, or its fate is unknown."""

from dataclasses import replace
from typing import Any

import pytest

from docstore.documents.keys import KEY_LIFE_US
from docstore.documents.timing import MemoryBounds
from docstore.machines.events import Received
from docstore.model.operation import Operation
from docstore.storage.store import History
from docstore.wire.messages import Answered, Forward, Forwarded
from tests.docstore.documents.trio import NAMES, Trio

ONCE, BUSY, NEVER = "/t/once", "/t/0", "/t/never"
"""A document with one version, one that is written to all the time, and one that is not there."""
BOOT, FIRST = 9, 1000
"""The boot number of the entry nodes, and the sequence number of the first operation."""


def asked(seq: int, attempt: int, link: str, key: str = "") -> Forwarded:
    """Return an operation as its entry node sends it, for the first time or again."""
    operation = Operation(verb="PUT", link=link, body=b'{"n":1}', key=key, creates=True)
    return Forwarded(BOOT, seq, 0, attempt, 60_000, operation.packed())


class Group(Trio):
    """A group that is asked for operations by a member that does not own the slot."""

    def __init__(self) -> None:
        super().__init__()
        assert self.run_until(self.owner, 10)
        self.outcomes: dict[int, tuple[int, int | None]] = {}
        """Sequence -> (status, version) of the answer."""

    @property
    def log(self) -> Any:
        """The slot at its owner."""
        return self.replicas[self.owner()].core.logs[0]

    @property
    def pages(self) -> list[History]:
        """The reads of earlier versions of documents."""
        return [query for query in self.queries if isinstance(query, History)]

    def feed(self, name: str, event: Any) -> None:
        """Note the answers to the entry node."""
        if isinstance(event, Received) and isinstance(event.message, Answered):
            for seq, _, answer, *_ in event.message.answers:
                assert answer is not None
                self.outcomes[seq] = (answer.status, answer.row and answer.row.version)
        super().feed(name, event)

    def ask(self, *frames: Forwarded) -> list[tuple[int, int | None]]:
        """Return (status, version) of the answers to operations that come together."""
        owner = self.owner()
        entry = "n2" if owner != "n2" else "n3"
        seqs = [frame.seq for frame in frames]
        for seq in seqs:
            self.outcomes.pop(seq, None)
        self.feed(owner, Received(entry, Forward(list(frames))))
        assert self.run_until(lambda: all(seq in self.outcomes for seq in seqs), 5)
        return [self.outcomes[seq] for seq in seqs]

    def begin_anew(self) -> None:
        """Restart every process; the owner stays the same."""
        before = self.owner()
        for name in self.replicas:
            self.restart(name)
        assert self.run_until(lambda: not self.owner(), 1)
        assert self.run_until(self.owner, 10)
        assert self.owner() == before
        self.queries.clear()

    def bound(self, rows: int) -> None:
        """Bound the rows that a recall may read of a document."""
        core = self.replicas[self.owner()].core
        core.config = replace(core.config, memory=MemoryBounds(recall_rows=rows))


def restarted(first: Forwarded, later: int) -> Group:
    """Return a group that did an operation, then others to `BUSY`, and has begun anew."""
    group = Group()
    assert group.ask(first) == [(201, 0)]
    group.ask(*(asked(seq, 1, BUSY) for seq in range(later)))
    group.begin_anew()
    return group


def advance_clocks(group: Group, passed_us: int) -> None:
    """Have all wall clocks jump ahead, and wait for ticks that show it."""
    group.ahead_us.update(dict.fromkeys(NAMES, passed_us))
    group.run_until(lambda: False, 0.5)


def test_a_retry_finds_its_row_however_much_came_after_it_in_the_slot() -> None:
    group = restarted(asked(FIRST, 1, ONCE), later=300)
    group.bound(10)
    assert group.ask(asked(FIRST, 2, ONCE)) == [(201, 0)]
    assert group.log.end == 301
    assert len(group.pages) == 1


def test_a_retry_finds_its_row_among_many_versions_of_its_document() -> None:
    group = restarted(asked(FIRST, 1, BUSY), later=100)
    assert group.ask(asked(FIRST, 2, BUSY)) == [(201, 0)]
    assert group.log.end == 101
    assert len(group.pages) == 26  # Each has four rows.


def test_the_newest_versions_are_searched_first() -> None:
    group = restarted(asked(FIRST, 1, ONCE), later=100)
    assert group.ask(asked(98, 2, BUSY)) == [(200, 98)]
    assert len(group.pages) == 1


@pytest.mark.parametrize(
    ("link", "answer"), [(ONCE, (200, 1)), (BUSY, (200, 30)), (NEVER, (201, 0))]
)
def test_an_operation_without_a_row_is_executed_once_all_is_read(link: str, answer: Any) -> None:
    group = restarted(asked(FIRST, 1, ONCE), later=30)
    assert group.ask(asked(FIRST + 1, 2, link)) == [answer]
    assert group.log.end == 32


def test_retries_that_come_together_share_their_reads() -> None:
    group = restarted(asked(FIRST, 1, BUSY), later=20)
    retries = [asked(FIRST, 2, BUSY), asked(7, 2, BUSY), asked(7, 3, BUSY), asked(50, 2, BUSY)]
    assert group.ask(*retries) == [(201, 0), (200, 8), (200, 8), (200, 21)]
    assert group.log.end == 22
    assert len({page.before for page in group.pages}) == len(group.pages)


def test_an_operation_that_may_lie_deeper_is_not_executed_again() -> None:
    group = restarted(asked(FIRST, 1, BUSY), later=40)
    group.bound(10)
    assert group.ask(asked(FIRST, 2, BUSY)) == [(504, None)]
    assert sum(page.limit for page in group.pages) == 10
    assert group.ask(asked(FIRST + 1, 2, BUSY)) == [(504, None)]
    assert group.log.end == 41


def test_the_age_of_rows_does_not_end_the_search_for_a_retry() -> None:
    group = restarted(asked(FIRST, 1, BUSY), later=40)
    # For the owner, all rows are a day old.
    advance_clocks(group, 86_400_000_000)
    group.bound(10)
    assert group.ask(asked(FIRST, 2, BUSY)) == [(504, None)]


def test_a_key_is_known_after_a_restart() -> None:
    group = restarted(asked(FIRST, 1, BUSY, "key"), later=40)
    assert group.ask(asked(FIRST, 1, BUSY, "key")) == [(201, 0)]
    assert group.log.end == 41


def test_a_key_that_may_have_been_used_deeper_is_not_taken_for_new() -> None:
    group = restarted(asked(FIRST, 1, BUSY, "key"), later=40)
    group.bound(10)
    assert group.ask(asked(FIRST + 1, 1, BUSY, "key")) == [(504, None)]
    assert group.log.end == 41


def test_a_key_is_not_searched_in_rows_older_than_the_life_of_keys() -> None:
    group = restarted(asked(FIRST, 1, BUSY, "key"), later=40)
    group.bound(10)
    advance_clocks(group, KEY_LIFE_US)
    assert group.ask(asked(FIRST + 1, 1, BUSY, "key")) == [(200, 41)]
    assert len(group.pages) == 0


def test_a_key_is_not_searched_in_older_rows_of_a_document_in_a_busy_slot() -> None:
    group = Group()
    assert group.ask(asked(1, 1, BUSY, "key")) == [(201, 0)]
    advance_clocks(group, KEY_LIFE_US)
    assert group.ask(asked(2, 1, ONCE, "key")) == [(201, 0)]
    group.begin_anew()
    group.run_until(lambda: False, 0.5)  # By now the owner knows what is certainly past.
    assert group.ask(asked(3, 1, BUSY, "key"), asked(4, 1, ONCE, "key")) == [(200, 1), (201, 0)]
    assert len(group.pages) == 2


def test_of_two_uses_of_a_key_the_later_one_counts() -> None:
    group = Group()
    assert group.ask(asked(1, 1, BUSY, "key")) == [(201, 0)]
    advance_clocks(group, KEY_LIFE_US)
    assert group.ask(asked(2, 1, BUSY, "key")) == [(200, 1)]
    group.begin_anew()
    assert group.ask(asked(3, 1, BUSY, "key")) == [(200, 1)]
    assert group.log.end == 2
