"""Retries of idempotent producers, judged by the log alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.model.streams_batch import COUNTED, KAFKA, BatchHeader
from docstore.streams.producer_state import REMEMBERED, SEQUENCES, ProducerState

LONG_AGO = -1


def batch(
    base: int, sequence: int, *, epoch: int = 0, records: int = 2, us: int = 10, flags: int = 0
) -> BatchHeader:
    return BatchHeader(base, records, 1, us, us, "p", epoch, sequence, flags, 100)


def state_of(*headers: BatchHeader, high: int = 0) -> ProducerState:
    state = ProducerState()
    for header in headers:
        state.note(header, high)
    return state


def code(state: ProducerState, sequence: int, *, epoch: int = 0, records: int = 2) -> str:
    return state.judge(("p", epoch, sequence), records, expired_us=LONG_AGO).code


@pytest.mark.parametrize(
    ("sequence", "epoch", "expected"),
    [
        (2, 0, ""),
        (1, 0, "repeated"),
        (0, 0, "repeated"),
        (3, 0, "sequence-gap"),
        (0, 1, ""),
        (1, 1, "sequence-gap"),
    ],
)
def test_the_next_sequence_is_appended_and_an_earlier_one_is_repeated(
    sequence: int, epoch: int, expected: str
) -> None:
    assert code(state_of(batch(0, 0), batch(2, 1)), sequence, epoch=epoch) == expected


def test_a_repetition_is_answered_with_the_offsets_of_the_original() -> None:
    verdict = state_of(batch(0, 0), batch(2, 1)).judge(("p", 0, 0), 2, expired_us=LONG_AGO)
    assert verdict.entry is not None
    assert (verdict.entry.base, verdict.entry.records) == (0, 2)


def test_a_repeated_sequence_with_another_number_of_records_is_a_gap() -> None:
    assert code(state_of(batch(0, 0)), 0, records=3) == "sequence-gap"


def test_a_later_start_fences_the_earlier_one() -> None:
    assert code(state_of(batch(0, 0, epoch=4)), 1, epoch=3) == "producer-fenced"


def test_an_old_sequence_is_stale_and_a_remembered_one_repeated() -> None:
    state = state_of(*[batch(2 * n, n) for n in range(9)], high=18)
    assert code(state, 8 - REMEMBERED) == "stale-sequence"
    assert code(state, 9 - REMEMBERED) == "repeated"


def test_a_producer_that_is_not_known_begins_at_zero() -> None:
    assert code(ProducerState(), 0) == ""
    assert code(ProducerState(), 7) == "unknown-producer"


def test_a_producer_that_was_silent_for_too_long_is_not_known_any_more() -> None:
    state = state_of(batch(0, 0, us=10))
    assert state.judge(("p", 0, 1), 2, expired_us=10).code == ""
    assert state.judge(("p", 0, 1), 2, expired_us=11).code == "unknown-producer"


def test_an_expired_producer_repeats_its_last_batch_at_sequence_zero() -> None:
    state = state_of(batch(0, 0, us=10), batch(2, 0, us=99))
    entry = state.judge(("p", 0, 0), 2, expired_us=50).entry
    assert entry is not None
    assert entry.base == 2


@given(st.integers(0, 12), st.integers(0, 12))
def test_truncated_batches_leave_no_producer_state(written: int, kept: int) -> None:
    kept = min(written, kept)
    cut = state_of(*[batch(2 * n, n) for n in range(written)])
    cut.cut(2 * kept)
    assert cut.newest() == state_of(*[batch(2 * n, n) for n in range(kept)]).newest()


def test_a_cut_goes_back_to_the_epoch_before() -> None:
    state = state_of(batch(0, 0), batch(2, 0, epoch=1))
    state.cut(2)
    assert code(state, 1) == ""


@pytest.mark.parametrize("flags", [KAFKA, COUNTED])
@pytest.mark.parametrize("first", [0, 100, SEQUENCES - 6, SEQUENCES - 7, SEQUENCES - 1])
def test_a_producer_with_sequences_continues_after_the_last_one(first: int, flags: int) -> None:
    sequence, sequences = first, list[int]()
    state = ProducerState()
    for number in range(REMEMBERED + 1):
        state.note(batch(3 * number, sequence, records=3, flags=flags), 3 * number)
        sequences.append(sequence)
        sequence = (sequence + 3) % SEQUENCES
    state = ProducerState.unpack(state.pack(3 * len(sequences)))
    assert code(state, sequence) == ""
    for number, each in enumerate(sequences[1:], 1):
        again = state.judge(("p", 0, each), 3, expired_us=LONG_AGO)
        assert again.code == "repeated"
        assert again.entry is not None
        assert again.entry.base == 3 * number
        assert code(state, each, records=2) == "sequence-gap"
    assert code(state, sequences[0]) == "stale-sequence"
    assert code(state, (sequence + 1) % SEQUENCES) == "sequence-gap"
    assert code(state, (sequence - 1) % SEQUENCES) == "stale-sequence"
    assert code(state, 0, epoch=1) == ""
    assert code(state, 3, epoch=1) == "sequence-gap"


@given(st.integers(0, 12), st.integers(0, 12))
def test_a_snapshot_and_the_headers_after_it_say_the_same_as_the_log(total: int, at: int) -> None:
    headers = [batch(2 * n, n) for n in range(total)]
    at = min(at, total)
    state = state_of(*headers, high=2 * at)
    again = ProducerState.unpack(state.pack(2 * at))
    for header in headers[at:]:
        again.note(header, 2 * at)
    assert again.newest() == state.newest()
