"""Disks whose commits take longer than an attempt's timeout."""

from docstore.documents.events import Requested
from docstore.model.operation import Operation
from tests.docstore.documents.trio import CONFIG, Trio


def test_an_owner_is_found_though_commits_outlast_the_first_attempts() -> None:
    """Rule T4: double the timeout of failed attempts, or slow disks would never open a slot."""
    trio = Trio()
    trio.sync_s = dict.fromkeys(trio.sync_s, 1.5 * CONFIG.leadership.attempt_timeout_s)
    assert trio.run_until(trio.owner, 30)
    assert sum(each.core.counters["attempts_failed"] for each in trio.replicas.values()) > 0


def test_an_undecided_row_is_not_read() -> None:
    """Rule R3: the owner is confirmed at once, and the disks take longer."""
    trio = Trio()
    assert trio.run_until(trio.owner, 10)
    trio.write(1, b"old")
    assert trio.run_until(lambda: len(trio.answers) == 1, 5)
    trio.sync_s = dict.fromkeys(trio.sync_s, 1.0)
    trio.write(1, b"new")
    operation = Operation(verb="GET", link="/t/0")
    trio._at(0.01, trio.owner(), Requested(7, operation, trio.now + 5))
    assert trio.run_until(lambda: len(trio.answers) == 3, 5)
    first, last = (respond for _, respond in trio.answers[1:])
    assert (first.request, last.request) == (7, 0), "the read is answered before the write"
    assert first.outcome.row is not None
    assert b"old" in first.outcome.row.state
