"""Results of several copies are merged: in order, without a gap, and no more."""

from hypothesis import given
from hypothesis import strategies as st

from docstore.query.ordering import Found, parse_order, place_of
from docstore.reads.scans.queries import merged
from docstore.reads.scans.searches import FoundPage

COPIES = 3
numbers = st.lists(st.integers(0, 4), max_size=25)


@given(numbers, st.lists(st.integers(1, 9), min_size=COPIES, max_size=COPIES), st.integers(1, 12))
def test_stretches_are_merged_as_far_as_they_go(
    values: list[int], shown: list[int], limit: int
) -> None:
    order = parse_order("n desc")
    rows: list[Found] = [(3, n, f"/a/{at:02}", 0, at % 7) for at, n in enumerate(values)]
    order.sort(rows)
    stretches = []
    for copy in range(COPIES):
        own = [row for row in rows if row[-1] % COPIES == copy]
        found = own[: shown[copy]]
        stretches.append(FoundPage(found, place_of(found[-1]) if len(found) < len(own) else None))
    found, until, _ = merged(order, stretches, limit)
    assert found == rows[: len(found)]
    assert len(found) <= limit
    if until is None:
        assert found == rows
    else:
        assert found
        assert place_of(found[-1]) == until
    if all(each.until is None for each in stretches):
        assert len(found) == min(limit, len(rows))
