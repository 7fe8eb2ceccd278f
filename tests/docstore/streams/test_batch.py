"""A sealed batch is read back unchanged, and any damage to it is found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.model.streams_batch import (
    JSON,
    BatchHeader,
    body_of,
    framed,
    head_of,
    header_from,
    header_of,
    is_of,
    place_of,
    seal,
    unframed,
    verified,
)

NAME = "flights/0@018f"
PLACE = place_of(NAME)
offsets, times = st.integers(0, (1 << 44) - 1), st.integers(0, (1 << 62))
HEADERS = st.builds(
    BatchHeader,
    base=offsets,
    records=st.integers(1, (1 << 32) - 1),
    epoch=st.integers(0, 1 << 62),
    first_us=times,
    last_us=times,
    producer=st.text(max_size=60),
    producer_epoch=st.integers(0, (1 << 32) - 1),
    sequence=st.integers(0, 1 << 62),
    flags=st.integers(0, 255),
    size=st.just(0),
)
ONE = seal(PLACE, BatchHeader(7, 2, 3, 10, 20, "é", 1, 5, JSON, 0), b"two records")


@given(HEADERS, st.binary(max_size=300))
def test_a_sealed_batch_is_read_back(header: BatchHeader, body: bytes) -> None:
    raw = seal(PLACE, header, body)
    found = header_of(raw)
    assert found == header._replace(size=len(raw))
    assert found.end == header.base + header.records
    assert body_of(raw) == body
    assert verified(raw, PLACE) == header_from(head_of(raw)) == found
    assert is_of(head_of(raw), PLACE)


def test_damage_to_any_byte_is_found() -> None:
    for place in range(len(ONE)):
        for bit in (1, 16, 128):
            raw = bytearray(ONE)
            raw[place] ^= bit
            with pytest.raises(ValueError, match="batch"):
                verified(bytes(raw), PLACE)


def test_a_batch_of_a_wrong_length_is_refused() -> None:
    for size in range(len(ONE)):
        with pytest.raises(ValueError, match="batch"):
            header_of(ONE[:size])
    with pytest.raises(ValueError, match="batch"):
        header_of(ONE + b"\x00")


def test_a_batch_in_the_place_of_another_partition_is_found() -> None:
    with pytest.raises(ValueError, match="another partition"):
        verified(ONE, place_of("flights/1@018f"))


def test_a_batch_at_another_offset_is_found() -> None:
    """The checksum covers the offset: a batch must be sealed anew to be moved."""
    moved = ONE[:5] + (8).to_bytes(8, "big") + ONE[13:]
    assert header_of(moved).base == 8
    with pytest.raises(ValueError, match="checksum"):
        verified(moved, PLACE)


@given(st.lists(st.binary(max_size=40)))
def test_batches_behind_their_lengths_come_back_or_are_cut_off(batches: list[bytes]) -> None:
    content = framed(batches)
    assert list(unframed(content)) == batches
    if batches:
        with pytest.raises(ValueError, match="the body ends inside"):
            list(unframed(content[:-1]))
