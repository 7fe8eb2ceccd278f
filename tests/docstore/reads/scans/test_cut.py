"""Tokens of cuts: a packed one is small and is read back, any other text is refused."""

import base64
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.errors import BadRequest
from docstore.query.cut import NUMBER_MAX, Cut, is_token, unpack_cut, unpack_part

CLUSTER = "efcca1667e846b4dac2ea3aa068d0d55"
numbers = st.integers(0, NUMBER_MAX) | st.integers(0, 300)


def crowded(slots: int, rows: int) -> Cut:
    """Return a cut of a group with about `rows` rows in each slot, distributed as by hashes."""
    dealt = random.Random(slots)
    return Cut(CLUSTER, tuple((3, int(dealt.gauss(rows, rows**0.5))) for _ in range(slots)))


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=40), st.text(max_size=40))
def test_a_cut_is_read_back_from_its_token(positions: list[tuple[int, int]], cluster: str) -> None:
    cut = Cut(cluster, tuple(positions))
    assert unpack_cut(cut.pack()) == cut
    for slot, position in enumerate(positions):
        alone = cut.only(slot)
        assert unpack_part(alone.pack()) == alone
        assert alone.by_slot() == {slot: position}


@pytest.mark.parametrize(
    ("slots", "rows", "characters"),
    [(1024, 1_000, 1_500), (4096, 1_000, 5_200), (4096, 100_000, 7_500), (65_536, 1_000, 80_000)],
)
def test_a_token_has_some_two_characters_a_slot(slots: int, rows: int, characters: int) -> None:
    cut = crowded(slots, rows)
    token = cut.pack()
    assert len(token) < characters
    assert unpack_cut(token).positions == cut.positions


def test_the_token_of_one_slot_is_short_and_no_cut_of_a_group() -> None:
    token = crowded(65_536, 1_000).only(4711).pack()
    assert len(token) < 100
    assert is_token(token)
    with pytest.raises(BadRequest, match="one document"):
        unpack_cut(token)


def test_a_cut_moves_only_in_slots_of_its_own() -> None:
    cut = Cut("c", ((1, 1), (1, 2), (1, 3)))
    assert cut.moved({1: (2, 9)}).positions == ((1, 1), (2, 9), (1, 3))
    assert cut.only(1).moved({0: (7, 7), 1: (2, 9)}).by_slot() == {1: (2, 9)}


@pytest.mark.parametrize(
    "token",
    [
        "", "~", "~~", "~AAAA", "~!!", "AAAA", "~" + "A" * 2_000_000,
        Cut("c", ((1, 1), (2, 300))).pack()[:-4], Cut("c", ((1, 1),)).pack() + "AAAA",
    ],
)  # fmt: skip
def test_a_malformed_token_is_refused(token: str) -> None:
    with pytest.raises(BadRequest):
        unpack_part(token)


@given(st.binary(max_size=80))
def test_random_bytes_are_refused_or_a_cut(garbage: bytes) -> None:
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    packed = base64.urlsafe_b64encode(deflate.compress(garbage) + deflate.flush())
    try:
        cut = unpack_part("~" + packed.decode().rstrip("="))
    except BadRequest:
        return
    assert 0 < len(cut.positions) <= cut.slots
