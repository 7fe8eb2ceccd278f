"""Records of one partition, from its leader: exactly those of a range, whoever reads it when.

Only what is committed is seen, and what is committed does not change, so a range that is read
again is the same, unless retention has let go of its beginning by then.
"""

import http.client
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from docstore.model.streams_batch import body_of, header_of, unframed
from docstore.pipeline.errors import PipelineError
from docstore.pipeline.group_client import AGAIN, GroupClient, GroupError, pause
from docstore.pipeline.topics import link_of
from docstore.streams.records import unpacked

BATCHES = {"Accept": "application/vnd.docstore.batches"}
BYTES_AT_ONCE = 4 << 20
WAIT_MS = 2000
"""For how long a leader may wait for what a range has and it does not know to be committed."""
EVICTED, BEYOND = "offset-evicted", "offset-out-of-range"

log = logging.getLogger(__name__)


class RecordsLost(PipelineError):
    """Records that a reader has not seen are not there any more."""


@dataclass(frozen=True, slots=True)
class Range:
    """The offsets that one task reads. urls: nodes to ask, the leader first. of: incarnation."""

    topic: str
    partition: int
    start: int
    end: int
    urls: tuple[str, ...]
    fails_on_loss: bool
    retries: int
    timeout_s: float
    of: str = ""

    @property
    def name(self) -> str:
        """Return how errors name the partition."""
        return f"partition {self.partition} of {self.topic}"

    def parts(self, most: int) -> "list[Range]":
        """Return ranges of about the same size, of at most so many records, that make it up."""
        count = self.end - self.start
        if count <= 0:
            return []
        pieces = -(-count // most)
        bounds = [self.start + count * n // pieces for n in range(pieces + 1)]
        return [replace(self, start=a, end=b) for a, b in pairwise(bounds)]


class RecordsPage(NamedTuple):
    """One answer: sealed batches, of which only the records first..following-1 count.

    of: the incarnation of the topic that answers, "" from a node that does not say it.
    """

    content: bytes
    first: int
    following: int
    of: str = ""


@dataclass(slots=True)
class RecordBlock:
    """Records that follow on each other, as columns. times: in microseconds since 1970."""

    first: int
    epochs: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    headers: list[list[tuple[str, bytes]] | None] = field(default_factory=list)
    times: list[int] = field(default_factory=list)


def stretches(asked: Range) -> Iterator[RecordBlock]:
    """Yield the records of a range. Raises RecordsLost, GroupError, OSError."""
    at, waited = asked.start, 0
    while at < asked.end:
        try:
            page = fetch(asked, str(at), wait_ms=WAIT_MS)
        except GroupError as error:
            at = _after_loss(asked, at, error)
            continue
        if asked.of and page.of not in ("", asked.of):
            _lost(asked, at, asked.end, "its topic has been made anew since this was planned")
            return
        until = min(page.following, asked.end)
        if until > at:
            yield _stretch(page.content, at, until)
            at, waited = until, 0
            continue
        waited += 1
        if waited > asked.retries:
            _lost(asked, at, asked.end, f"is not committed beyond {at}, and was up to {asked.end}")
            return


def _after_loss(asked: Range, at: int, error: GroupError) -> int:
    """Return where to go on, if that is wanted. Raises RecordsLost, or the error if it is none."""
    if error.code not in (EVICTED, BEYOND):
        raise error
    kept = asked.end if error.code == BEYOND else fetch(asked, "beginning").first
    _lost(asked, at, min(kept, asked.end), error.detail)
    return max(at, kept)


def _lost(asked: Range, at: int, until: int, why: str) -> None:
    """Say that records at..until-1 are not there. Raises RecordsLost unless they are skipped."""
    if asked.fails_on_loss:
        raise RecordsLost(
            f"docstore: {asked.name}: {why}; begin elsewhere, or skip what is lost with"
            ' option("failOnDataLoss", "false")'
        )
    log.warning("%s: records from %d to %d are lost: %s", asked.name, at, until, why)


def fetch(
    asked: Range, origin: str, *, wait_ms: int = 0, bytes_max: int = BYTES_AT_ONCE
) -> RecordsPage:
    """Return what is committed from an origin on, as HTTP knows it. Raises GroupError, OSError."""
    group = GroupClient(asked.urls, timeout_s=asked.timeout_s)
    path = (
        f"{link_of(asked.topic)}/partitions/{asked.partition}/records"
        f"?from={origin}&maxBytes={bytes_max}&waitMs={wait_ms}"
    )
    last: Exception = OSError("there is no node to ask")
    for attempt in range((asked.retries + 1) * len(group.urls)):
        url = group.urls[attempt % len(group.urls)]
        try:
            with group.open("GET", url, path, None, BATCHES) as answer:
                first, following = (
                    int(answer.headers[name]) for name in ("Docstore-From", "Docstore-Next")
                )
                of = answer.headers.get("Docstore-Incarnation", "")
                return RecordsPage(answer.read(), first, following, of)
        except GroupError as error:
            if error.status not in AGAIN:
                raise
            last = error
        except (OSError, http.client.HTTPException) as error:
            last = error
        if attempt + 1 >= len(group.urls):
            pause(attempt // len(group.urls))
    raise last


def _stretch(content: bytes, first: int, until: int) -> RecordBlock:
    found = RecordBlock(first)
    for raw in unframed(content):
        header = header_of(raw)
        for offset, (key, value, headers, client_us) in enumerate(
            unpacked(body_of(raw)), header.base
        ):
            if first <= offset < until:
                found.epochs.append(header.epoch)
                found.keys.append(key)
                found.values.append(value)
                found.headers.append(list(headers) or None)
                found.times.append(header.last_us if client_us is None else client_us)
    return found
