"""The judges of the lines about owners: each rule reports its violation."""

from docstore.client.producer import Position
from tests.chaos.lines.flights import Flown
from tests.chaos.lines.groups import Committed, Processed, Watched, gone_back, missed, processed
from tests.chaos.lines.roles import Look, believers, look_of, overlaps, spans


def test_a_look_is_read_and_other_lines_are_none() -> None:
    assert look_of("1.5 1.6 0 7 0") == Look(1.5, 1.6, [0, 7, 0])
    assert look_of("late 409") is None
    assert look_of("Traceback (most recent call last):") is None


def test_two_that_lead_one_after_the_other_do_not_overlap() -> None:
    looks = {
        "a": [Look(1.0, 1.1, [5]), Look(2.0, 2.1, [5]), Look(3.0, 3.1, [0])],
        "b": [Look(2.0, 2.1, [0]), Look(2.4, 2.5, [6])],
    }
    assert list(overlaps(spans(looks, 0))) == []


def test_two_that_lead_at_one_moment_are_seen() -> None:
    looks = {
        "a": [Look(1.0, 1.1, [5]), Look(3.0, 3.1, [5])],
        "b": [Look(2.0, 2.1, [6])],
    }
    assert len(list(overlaps(spans(looks, 0)))) == 1


def test_a_token_that_does_not_grow_is_seen() -> None:
    looks = {"a": [Look(1.0, 1.1, [5])], "b": [Look(2.0, 2.1, [5])]}
    assert len(list(overlaps(spans(looks, 0)))) == 1


def test_only_the_first_look_after_waking_up_counts() -> None:
    looks = {"a": [Look(1.0, 1.1, [5]), Look(4.0, 4.1, [0]), Look(6.0, 6.1, [7])]}
    assert list(believers([("a", 3.0)], looks)) == []
    assert len(list(believers([("a", 5.0)], looks))) == 1


def test_a_record_may_come_again_only_while_it_is_not_committed() -> None:
    watched = Watched()
    watched.see(0, Committed(2.0, offset=5, token=1))
    early, again = Processed(1.0, 0, 4, (0, 4), "a"), Processed(3.0, 0, 5, (0, 5), "b")
    assert list(gone_back(watched, [early, again])) == []
    late = Processed(3.0, 0, 4, (0, 4), "b")
    assert len(list(gone_back(watched, [early, late]))) == 1


def test_offsets_and_tokens_that_go_back_are_seen() -> None:
    watched = Watched()
    for offset, token in ((5, 1), (5, 2), (4, 2), (6, 1)):
        watched.see(0, Committed(1.0, offset, token))
    assert len(watched.wrong) == 2


def test_an_acknowledged_record_must_be_processed_at_its_place() -> None:
    flown = Flown(places={(0, 1): Position(0, 7)})
    said = {"a": ["1.0 0 7 0 1"]}
    assert list(missed(flown, list(processed(said)))) == []
    assert len(list(missed(flown, list(processed({"a": ["1.0 0 8 0 1"]}))))) == 1
