"""Names of snapshots: none that `asOf` takes for something else."""

import pytest

from docstore.errors import BadRequest
from docstore.query.cut import Cut
from docstore.query.names import check_snapshot_name, insist_on_past, moment_of

TAKEN = [
    "latest", "barrier", "earliest", "snapshot", "2026", "999999999999999999999", "2026-11-20",
    "20261120T190000Z", "2026-11-20 19:00:00+01:00", "2026-W47", "~end-of-year",
    Cut("c", ((1, 2),)).pack(),
]  # fmt: skip
FREE = [
    "friday",
    "v1&final",
    "a%20b",
    "a+b",
    "50%25",
    "Latest",
    "2026-q4",
    "release 7",
    "周五",
    "\uff11\uff12",
]


@pytest.mark.parametrize("name", TAKEN)
def test_a_name_that_means_something_else_is_refused(name: str) -> None:
    with pytest.raises(BadRequest, match="a snapshot cannot be called"):
        check_snapshot_name(name)


@pytest.mark.parametrize("name", FREE)
def test_the_name_of_a_snapshot_is_not_a_time(name: str) -> None:
    check_snapshot_name(name)
    assert moment_of(name) is None


def test_a_time_has_its_zone() -> None:
    assert moment_of("1970-01-01T00:00:01+00:00") == 1_000_000
    assert moment_of("1970-01-01T01:00:01 01:00") == 1_000_000  # A plus that was not quoted.
    with pytest.raises(BadRequest, match="must have a zone"):
        moment_of("2026-11-20")


def test_a_moment_that_is_yet_to_come_has_no_cut() -> None:
    for past in ("1970-01-01T00:00:01Z", "1000000", "friday", "latest"):
        insist_on_past(past, 1_000_000)
    for future in ("1970-01-01T00:00:01.000001Z", "1000001", "9999-12-31T23:59:59Z"):
        with pytest.raises(BadRequest, match="is yet to come"):
            insist_on_past(future, 1_000_000)
