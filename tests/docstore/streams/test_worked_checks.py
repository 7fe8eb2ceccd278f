"""Worked examples of election by lag, as far as its rules decide them, by their letters.

Those in which logs are cut and followers filled are in `test_worked_logs.py`.
"""

from docstore.model.document import Ballot
from docstore.ownership.by_lag import Copies, choose, elected, high_watermark, with_added, without

A, B, C = ("a", "1"), ("b", "1"), ("c", "1")


def test_a_the_high_watermark_is_the_slowest_end_and_rises_without_that_replica() -> None:
    ends = {A: 4, B: 3, C: 2}
    lrs: Copies = (A, B, C)
    assert high_watermark(ends, lrs) == 2
    after, elr = without(lrs, (), [C], 2)
    assert (after, elr) == ((A, B), ())
    # Until the change is known to be recorded, both sets are counted.
    assert high_watermark(ends, {*lrs, *after}) == 2
    assert high_watermark(ends, after) == 3


def test_b_with_min_in_sync_2_a_lone_survivor_commits_nothing_until_the_other_returns() -> None:
    lrs, elr = elected((A, B), (), [B], B, 2)
    assert (lrs, elr) == ((B,), (A,))
    assert len(lrs) < 2, "so the leader leaves the high watermark where it is"
    # A returns. It has all that was committed, and could lead; it joins instead.
    lrs, elr = with_added(lrs, elr, A, 2)
    assert (lrs, elr) == ((B, A), ())
    assert high_watermark({A: 2, B: 2}, lrs) == 2


def test_b_with_min_in_sync_1_the_survivor_commits_at_once_and_only_it_may_lead() -> None:
    lrs, elr = elected((A, B), (), [B], B, 1)
    assert (lrs, elr) == ((B,), ())
    assert high_watermark({B: 2}, lrs) == 2


def test_e_a_long_log_of_an_old_epoch_loses_to_a_shorter_one_of_a_later_epoch() -> None:
    old: tuple[Ballot, int] = ((3, "s5"), 3)
    new: tuple[Ballot, int] = ((4, "s1"), 2)
    for rival in ("s1", "s2", "s3"):
        assert choose({"s5": old, rival: new}, lambda node: int(node != "s5")) == rival
    # Within an epoch the longer one wins.
    assert choose({"s5": ((4, "s1"), 3), "s2": new}, lambda node: int(node != "s2")) == "s5"
