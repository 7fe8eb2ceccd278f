"""Fetch the records of one partition from its leader: exactly those of a range of offsets.

A leader sends committed records only, and these do not change. So a range that is read again gives
the same records, unless retention has evicted its beginning since.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from docstore.model.streams_batch import header_of, unframed
from docstore.pipeline.errors import PipelineError
from docstore.pipeline.group_client import GroupClient, GroupError, in_turn
from docstore.pipeline.topics import link_of
from docstore.streams.forms import records_of

BATCHES = {"Accept": "application/vnd.docstore.batches"}
BYTES_AT_ONCE = 4 << 20
WAIT_MS = 2000
"""Milliseconds that a leader may wait for records of a range that it does not know as committed."""
EVICTED, BEYOND = "offset-evicted", "offset-out-of-range"

log = logging.getLogger(__name__)


class RecordsLost(PipelineError):
    """Records of a range do not exist any more."""


@dataclass(frozen=True, slots=True)
class Range:
    """The offsets that one task reads, and how it reads them."""

    topic: str
    partition: int
    start: int
    end: int
    urls: tuple[str, ...]
    """Nodes to ask, the leader first."""
    fails_on_loss: bool
    retries: int
    timeout_s: float
    of: str = ""
    """Incarnation of the topic, "" for any."""

    @property
    def name(self) -> str:
        """The name of the partition in errors."""
        return f"partition {self.partition} of {self.topic}"

    def parts(self, most: int) -> "list[Range]":
        """Split the range into ranges of about the same size, each of at most `most` records."""
        count = self.end - self.start
        if count <= 0:
            return []
        pieces = -(-count // most)
        bounds = [self.start + count * n // pieces for n in range(pieces + 1)]
        return [replace(self, start=a, end=b) for a, b in pairwise(bounds)]


class RecordsPage(NamedTuple):
    """An answer: sealed batches, of which only the records first..following-1 belong to it.

    of: the incarnation of the topic, "" from a node that does not send it.
    """

    content: bytes
    first: int
    following: int
    of: str = ""


@dataclass(slots=True)
class RecordBlock:
    """Records in order, as columns. times: in microseconds since 1970."""

    offsets: list[int] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[list[tuple[str, bytes | None]] | None] = field(default_factory=list)
    times: list[int] = field(default_factory=list)


def blocks(asked: Range) -> Iterator[RecordBlock]:
    """Yield the records of a range. Raises RecordsLost, GroupError, OSError."""
    at, waited = asked.start, 0
    while at < asked.end:
        try:
            page = fetch(asked, str(at), wait_ms=WAIT_MS)
        except GroupError as error:
            at = _after_loss(asked, at, error)
            continue
        if asked.of and page.of not in ("", asked.of):
            _lost(asked, at, asked.end, "the topic was made again since this was planned")
            return
        until = min(page.following, asked.end)
        if until > at:
            yield from _blocks(page.content, at, until)
            at, waited = until, 0
            continue
        waited += 1
        if waited > asked.retries:
            _lost(asked, at, asked.end, f"is committed up to {at}, and was up to {asked.end}")
            return


def _after_loss(asked: Range, at: int, error: GroupError) -> int:
    """Return the offset after the lost records. Raises RecordsLost, or `error` if none is lost."""
    if error.code not in (EVICTED, BEYOND):
        raise error
    kept = asked.end if error.code == BEYOND else fetch(asked, "beginning").first
    _lost(asked, at, min(kept, asked.end), error.detail)
    return max(at, kept)


def _lost(asked: Range, at: int, until: int, why: str) -> None:
    """Raise RecordsLost for the records at..until-1, or log them if the options skip them."""
    if asked.fails_on_loss:
        raise RecordsLost(
            f"docstore: {asked.name}: {why}; begin at another offset, or skip lost records with"
            ' option("failOnDataLoss", "false")'
        )
    log.warning("%s: records from %d to %d are lost: %s", asked.name, at, until, why)


def fetch(
    asked: Range, origin: str, *, wait_ms: int = 0, bytes_max: int = BYTES_AT_ONCE
) -> RecordsPage:
    """Return committed records from an origin on. Raises GroupError, OSError.

    origin: an offset, `beginning`, or @ and microseconds since 1970.
    """
    group = GroupClient(asked.urls, timeout_s=asked.timeout_s)
    path = (
        f"{link_of(asked.topic)}/partitions/{asked.partition}/records"
        f"?from={origin}&maxBytes={bytes_max}&waitMs={wait_ms}"
    )

    def ask(url: str) -> RecordsPage:
        with group.open("GET", url, path, None, BATCHES) as answer:
            first, following = (
                int(answer.headers[name]) for name in ("Docstore-From", "Docstore-Next")
            )
            of = answer.headers.get("Docstore-Incarnation", "")
            return RecordsPage(answer.read(), first, following, of)

    return in_turn(group.urls, asked.retries, ask)


def _blocks(content: bytes, first: int, until: int) -> Iterator[RecordBlock]:
    found, size = RecordBlock(), 0
    for raw in unframed(content):
        if size > BYTES_AT_ONCE:  # Compressed batches may be many times as large.
            yield found
            found, size = RecordBlock(), 0
        header = header_of(raw)
        for offset, (key, value, headers, client_us) in records_of(header, raw):
            if first <= offset < until:
                size += len(value or b"")
                found.offsets.append(offset)
                found.epochs.append(header.epoch)
                found.keys.append(key)
                found.values.append(value)
                # A map has one content for a name: the last one.
                found.headers.append(list(dict(headers).items()) or None)
                found.times.append(header.last_us if client_us is None else client_us)
    yield found
