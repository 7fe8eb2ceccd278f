"""Selections of members, and refusals."""

from typing import Any

import pytest

from docstore.errors import BadRequest
from docstore.query.selection import MEMBERS_MAX, parse_selection, selected

DOCUMENT = {"n": 1, "a": {"b": {"c": 2, "d": None}, "e": [1]}, "é é": "x", "documentVersion": 3}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("n", {"n": 1}),
        ("n,missing,a/x,n/b,a/e/b", {"n": 1}),
        ("a/b/c, a.b.d", {"a": {"b": {"c": 2, "d": None}}}),
        ("a/e,a/b/c", {"a": {"e": [1], "b": {"c": 2}}}),
        ("a,a/b/c", {"a": DOCUMENT["a"]}),
        ("a/b/c,a", {"a": DOCUMENT["a"]}),
        ("`é é`,documentVersion", {"é é": "x", "documentVersion": 3}),
    ],
)
def test_a_selection_returns_its_members(text: str, wanted: dict[str, Any]) -> None:
    assert selected(DOCUMENT, parse_selection(text)) == wanted


@pytest.mark.parametrize("text", ["", "*", "  "])
def test_an_empty_selection_selects_all_members(text: str) -> None:
    assert not parse_selection(text)


@pytest.mark.parametrize(
    "text", ["n,", "a/", "1", "a b", "*,n", ",".join(["n"] * (MEMBERS_MAX + 1))]
)
def test_a_malformed_selection_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match=r"^\$select: "):
        parse_selection(text)
