"""The judges of batches under torture: each rule reports its violation."""

import pytest

from tests.chaos.batches import ABSENT, Moment, Stored, documents_of, wrong_batches, wrong_moments
from tests.chaos.mix import Op

ORDER, *LINES = documents_of("k")


def stored(*versions: tuple[str, str, int]) -> Stored:
    """Return histories of versions, each of which is (link, uid, time)."""
    found: dict[str, dict[int, dict[str, object]]] = {link: {} for link in documents_of("k")}
    for link, uid, at_us in versions:
        found[link][len(found[link])] = {"uid": uid, "documentUpdateTimeMicros": at_us}
    return found


def batch(uid: str, *links: str, status: int = 0) -> list[Op]:
    return [Op("put", link, uid, "n1", 1.0, status=status) for link in links]


@pytest.mark.parametrize("status", [0, 200, 409, 504])
def test_a_batch_is_stored_whole_at_one_time_or_not_at_all(status: int) -> None:
    ops = batch("b1", ORDER, LINES[0], status=status)
    assert list(wrong_batches(ops, stored())) == []
    assert list(wrong_batches(ops, stored((ORDER, "b1", 7), (LINES[0], "b1", 7)))) == []
    assert len(list(wrong_batches(ops, stored((ORDER, "b1", 7))))) == 1
    assert len(list(wrong_batches(ops, stored((ORDER, "b1", 7), (LINES[0], "b1", 8))))) == 1


def test_other_operations_are_no_batches() -> None:
    alone = [Op("read", ORDER, "r1", "n1", 1.0), Op("put", "/chaos/a", "p1", "n1", 1.0)]
    assert list(wrong_batches(alone, {**stored(), "/chaos/a": {}})) == []


def test_versions_read_for_an_instant_existed_then() -> None:
    history = stored((ORDER, "b1", 5), (LINES[0], "b1", 5), (ORDER, "b2", 9), (LINES[0], "b2", 9))

    def wrong(at_us: int, *versions: int) -> list[str]:
        shown = dict(zip(documents_of("k"), versions, strict=True))
        return list(wrong_moments([Moment(at_us, shown)], history))

    assert wrong(4, ABSENT, ABSENT, ABSENT) == []
    assert wrong(5, 0, 0, ABSENT) == []
    assert wrong(9, 1, 1, ABSENT) == []
    assert len(wrong(9, 1, 0, ABSENT)) == 1
    assert len(wrong(5, 0, ABSENT, ABSENT)) == 1
    assert len(wrong(4, 0, ABSENT, ABSENT)) == 1
