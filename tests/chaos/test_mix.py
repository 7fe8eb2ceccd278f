"""Late answers: whether the node or its pause is to blame."""

import pytest

from tests.chaos.mix import Op, Pause, Story, judge


def _late(*pauses: Pause, now: float) -> bool:
    story = Story(pauses=list(pauses))
    story.hold_to_deadline(Op("read", "/chaos/a", "1.1", "n1", start=100.0, status=503), now)
    return bool(story.errors)


@pytest.mark.parametrize(("now", "late"), [(107.9, False), (108.1, True)])
def test_an_answer_after_deadline_and_slack_is_late(now: float, late: bool) -> None:
    assert _late(now=now) is late


@pytest.mark.parametrize("ended", [107.0, float("inf")])
def test_a_pause_of_the_node_does_not_count(ended: float) -> None:
    assert not _late(Pause("n1", 99.0, ended), now=109.0)


def test_a_pause_of_another_node_is_no_excuse() -> None:
    assert _late(Pause("n2", 99.0, 107.0), now=109.0)


def test_the_time_after_a_pause_counts() -> None:
    assert _late(Pause("n1", 99.0, 101.0), now=109.5)


def test_a_pause_before_the_operation_is_no_excuse() -> None:
    assert _late(Pause("n1", 90.0, 99.0), now=108.1)


@pytest.mark.parametrize(
    ("status", "is_wrong"), [(200, False), (0, False), (504, False), (412, True)]
)
def test_an_unrequested_deletion_is_noticed(status: int, is_wrong: bool) -> None:
    stored = {
        0: {"uid": "a", "documentUpdateAction": "PUT"}, 1: {"documentUpdateAction": "DELETE"}
    }  # fmt: skip
    put = Op("put", "/chaos/a", "a", "n1", start=1.0, end=2.0, status=201, version=0)
    deleted = Op("delete", "/chaos/a", "b", "n1", start=3.0, end=4.0, status=status)
    deleted.version = 1 if status == 200 else None
    assert bool(judge([put, deleted], stored)) is is_wrong
