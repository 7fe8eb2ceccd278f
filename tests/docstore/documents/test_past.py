"""Answers about versions that are stored, trimmed, hidden, or never existed."""

import pytest

from docstore.documents.write_path.past import first_shown, past_answer, trimmed_answer
from docstore.model.document import Row
from docstore.model.operation import Select
from docstore.model.service import ServiceOptions
from docstore.services.declared import DeclaredService


def row(version: int) -> Row:
    return Row(0, version + 1, 1, "n1", "/a/b", version, "PUT", version, False, b"", b"", b"", b"")


@pytest.mark.parametrize(
    ("versions", "newest", "first"), [(0, 9, 0), (3, 9, 7), (1, 9, 9), (10, 9, 0), (11, 9, -1)]
)
def test_the_factory_sets_how_many_versions_are_shown(
    versions: int, newest: int, first: int
) -> None:
    service = DeclaredService(ServiceOptions(path="/a", kind="a", versions=versions))
    assert first_shown(service, row(newest)) == first


def test_all_is_shown_without_a_service_or_a_row() -> None:
    service = DeclaredService(ServiceOptions(path="/a", kind="a", versions=1))
    assert first_shown(service, None) == first_shown(None, row(9)) == 0


@pytest.mark.parametrize(
    ("select", "found", "status"),
    [
        (("version", 7), 7, 200), (("version", 6), 6, 410),
        (("at", 6), 6, 410), (("at", 8), 8, 200),
    ],
)  # fmt: skip
def test_a_stored_version_that_is_hidden_is_gone(select: Select, found: int, status: int) -> None:
    answer = past_answer(select, [row(found)], 7)
    assert answer.status == status
    assert status == 200 or "version 7 is the earliest" in answer.detail


def test_history_ends_at_the_first_that_is_shown() -> None:
    answer = past_answer(("history", None, 9), [row(n) for n in (9, 8, 7, 6, 5)], 7)
    assert [each.version for each in answer.rows or ()] == [9, 8, 7]
    # A page that begins before it is empty, and no error: its reader was overtaken.
    answer = past_answer(("history", 6, 9), [row(5)], 7)
    assert (answer.status, answer.rows) == (200, [])
    assert past_answer(("history", None, 9), [], 7).status == 404


@pytest.mark.parametrize(
    ("first", "kept", "earliest"), [(0, [9, 8], 8), (9, [9, 8], 9), (5, [9, 8], 8)]
)
def test_the_earliest_version_is_both_stored_and_shown(
    first: int, kept: list[int], earliest: int
) -> None:
    answer = trimmed_answer(("version", 3), [row(n) for n in kept], first)
    assert answer.status == 410
    assert f"version {earliest} is the earliest" in answer.detail


def test_a_version_that_never_existed_is_404() -> None:
    assert trimmed_answer(("version", 10), [row(9), row(8)], 9).status == 404
    assert trimmed_answer(("version", 3), [], 9).status == 404
