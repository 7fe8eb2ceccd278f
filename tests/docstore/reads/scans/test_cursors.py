"""Cursors are read back as they were packed; other texts are refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.errors import BadRequest
from docstore.query.cursors import pack_cursor, unpack_cursor

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8,
)  # fmt: skip


@given(st.text(max_size=20), st.dictionaries(st.text(), values, max_size=4))
def test_a_cursor_is_read_by_its_group_alone(group: str, query: dict[str, Any]) -> None:
    cursor = pack_cursor(group, query)
    assert unpack_cursor(group, cursor) == query
    with pytest.raises(BadRequest):
        unpack_cursor(group + "x", cursor)


@given(st.data())
def test_a_changed_cursor_is_refused(data: st.DataObject) -> None:
    query = {"after": ["/a/1", 0], "said": {"path": "/a"}}
    cursor = pack_cursor("g", query)
    # The last character has bits without a meaning.
    at = data.draw(st.integers(0, len(cursor) - 2))
    other = data.draw(st.characters().filter(lambda each: each != cursor[at]))
    for changed in (cursor[:at] + other + cursor[at + 1 :], cursor[:at], cursor[at + 1 :]):
        with pytest.raises(BadRequest):
            unpack_cursor("g", changed)


@given(st.text(max_size=200))
def test_any_text_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        unpack_cursor("g", text)
