"""Look-ups find exactly the documents of the keys that a table has."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore import pipeline
from docstore.pipeline.lookups import KEYS_AT_ONCE, link_of, pages, quoted
from docstore.query.parser import parse
from tests.pipeline.stage import Stage


@given(st.lists(st.text(st.sampled_from("a'/é "), max_size=1024), max_size=300, unique=True))
def test_each_page_of_keys_is_a_condition_for_them(links: list[str]) -> None:
    found: list[str] = []
    for page in pages(links):
        assert 0 < len(page) <= KEYS_AT_ONCE
        condition = parse(f"documentSelfLink in ({', '.join(map(quoted, page))})")
        assert condition.links == frozenset(page)
        found += page
    assert found == links


def test_pages_are_cut_by_the_length_of_their_keys() -> None:
    links = [f"/t/{n:091d}" for n in range(250)]
    assert [len(page) for page in pages(links)] == [166, 84]


@pytest.mark.parametrize("key", [None, "", "a\\b", "a\tb", "..", "x" * 2000, "a//b", "e\u0301"])
def test_keys_that_make_no_link_are_not_looked_up(key: str | None) -> None:
    assert link_of(key, "/t") == ""


@pytest.mark.thorough
def test_null_finds_nothing_and_long_keys_find_theirs(stage: Stage) -> None:
    names = ["None", "null", "it's", *(f"{n:094d}" for n in range(250))]
    stage.put({name: {"name": name} for name in names})
    keys = stage.spark.createDataFrame(
        [(None,), ("",), ("a\\b",), ("no'ne",), *((n,) for n in names)], "k string"
    )
    looked = pipeline.lookup(keys.coalesce(1), stage.url, stage.path, key="k")
    stage.put({"None": {"name": "changed"}})  # All rows belong to the cut of before.
    found = {row["k"]: row["lookupBody"] for row in looked.collect()}
    assert {key for key, body in found.items() if body is None} == {None, "", "a\\b", "no'ne"}
    assert {key: json.loads(body)["name"] for key, body in found.items() if body} == {
        name: name for name in names
    }
    with pytest.raises(ValueError, match="must have a column 'kk'"):
        pipeline.lookup(keys, stage.url, stage.path, key="kk")
    for taken in ("lookupBody", "k"):
        twice = keys.selectExpr("k", f"1 {taken}")
        with pytest.raises(ValueError, match=f"the column '{taken}' is named twice"):
            pipeline.lookup(twice, stage.url, stage.path, key="k")
