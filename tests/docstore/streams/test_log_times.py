"""A search by a record's time begins early enough, and not much earlier."""

import struct

from docstore.model.streams_batch import JSON, KAFKA, BatchHeader, header_of, place_of, seal
from docstore.streams.log_times import AHEAD_US_MAX, LogTimes
from docstore.streams.records import Record, pack

PLACE, SECOND = place_of("flights/0@018f"), 1_000_000
BEGIN = 1_000 * SECOND


def note(times: LogTimes, at_us: int, flags: int, body: bytes) -> None:
    """Note a batch of one record that is appended at a time."""
    raw = seal(PLACE, BatchHeader(40, 1, 3, at_us, at_us, "", 0, 0, flags, 0), body)
    times.note(header_of(raw), raw)


def from_kafka(times: LogTimes, at_us: int, ahead_us: int) -> None:
    ms = (at_us + ahead_us) // 1000
    head = struct.pack(">qiibIhiqqqhii", 0, 49, -1, 2, 0, 0, 0, ms, ms, -1, -1, -1, 1)
    note(times, at_us, KAFKA, head)


def test_a_search_begins_earlier_by_the_most_that_records_are_ahead() -> None:
    times = LogTimes(last_us=BEGIN - SECOND)
    late = BEGIN + AHEAD_US_MAX + SECOND
    assert times.begin(late) == late - AHEAD_US_MAX, "earlier batches are not known"
    from_kafka(times, BEGIN, -SECOND)
    assert times.begin(late) == late
    assert times.begin(BEGIN + AHEAD_US_MAX) == BEGIN, "a batch before may be as far ahead"
    from_kafka(times, BEGIN + SECOND, 3 * SECOND)
    from_kafka(times, BEGIN + 2 * SECOND, SECOND)
    assert times.begin(late) == late - 3 * SECOND
    note(times, BEGIN + 3 * SECOND, JSON, pack(Record(None, b"1")))
    assert times.begin(late) == late - AHEAD_US_MAX, "its record may have any time"
    assert times.last_us == BEGIN + 3 * SECOND
    assert times.begin(SECOND) == 0
