"""Times of a partition's batches, and how far those of their records are ahead.

A search by time goes by the times of batches. A record's own time is that of its producer, so the
search begins earlier: by as much as any record is known to be ahead.
"""

from dataclasses import dataclass

from docstore.model.streams_batch import KAFKA, BatchHeader, body_view
from docstore.streams.kafka_records import HEAD_SIZE, kafka_head

AHEAD_US_MAX = 60_000_000
"""Microseconds by which the time of a Kafka client's record may be ahead of its batch's."""


@dataclass(slots=True)
class LogTimes:
    """Times of one log. last_us: of the newest batch."""

    last_us: int = 0
    watched_us: int = 0
    """Time of the first batch that was appended since the process started; 0 for none."""
    ahead_us: int = 0
    """Microseconds by which the records of the batches since then are ahead at most."""

    def note(self, header: BatchHeader, raw: bytes) -> None:
        """Note a batch that is appended."""
        self.last_us = max(self.last_us, header.last_us)
        self.watched_us = self.watched_us or header.last_us
        self.ahead_us = max(self.ahead_us, _ahead_us(header, raw))

    def begin(self, us: int) -> int:
        """Return a time such that no earlier batch has a record of the time `us` or a later one."""
        is_watched = 0 < self.watched_us < us - AHEAD_US_MAX
        return max(0, us - (self.ahead_us if is_watched else AHEAD_US_MAX))


def _ahead_us(header: BatchHeader, raw: bytes) -> int:
    body = body_view(raw)
    if not header.flags & KAFKA or len(body) < HEAD_SIZE:
        return AHEAD_US_MAX  # To read the times of all its records takes too long here.
    return kafka_head(body).last_ms * 1000 - header.last_us
