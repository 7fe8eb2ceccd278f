"""Names of snapshots: none that `asOf` takes for something else."""

import pytest

from docstore.errors import BadRequest
from docstore.scanning.cut import Cut
from docstore.scanning.names import check_snapshot_name, moment_of

TAKEN = [
    "latest", "barrier", "earliest", "snapshot", "2026", "999999999999999999999", "2026-11-20",
    "20261120T190000Z", "2026-11-20 19:00:00+01:00", "2026-W47", "eNd-of-year",
    Cut("c", ((1, 2),)).pack(),
]  # fmt: skip
FREE = ["friday", "v1&final", "a%20b", "a+b", "50%25", "Latest", "2026-q4", "release 7", "周五"]


@pytest.mark.parametrize("name", TAKEN)
def test_a_name_that_means_something_else_is_refused(name: str) -> None:
    with pytest.raises(BadRequest, match="a snapshot cannot be called"):
        check_snapshot_name(name)


@pytest.mark.parametrize("name", FREE)
def test_any_other_name_is_no_time(name: str) -> None:
    check_snapshot_name(name)
    assert moment_of(name) is None


def test_a_time_has_its_zone() -> None:
    assert moment_of("1970-01-01T00:00:01+00:00") == 1_000_000
    assert moment_of("1970-01-01T01:00:01 01:00") == 1_000_000  # A plus that was not quoted.
    with pytest.raises(BadRequest, match="needs its zone"):
        moment_of("2026-11-20")
