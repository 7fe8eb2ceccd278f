"""Read the changes of a factory: the readers behind `format("docstore.changes")`.

An offset is a cut. A batch holds the rows of the slots' logs between two cuts. A slot stays in one
task, so the versions of a document arrive in order. Readers see decided rows only, so an offset is
never taken back. The rows of a batch are fixed when its end is chosen, and `partitions` depends on
its arguments only: a batch that is run again has the same rows.

Source: the change streams of Cosmos DB, MongoDB and Kafka's connectors, and their known faults.
"""

import hashlib
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from docstore.errors import BadRequest
from docstore.pipeline import scanning
from docstore.pipeline.columns import FEED, schema_of, with_members
from docstore.pipeline.cuts import retain
from docstore.pipeline.errors import PipelineError
from docstore.pipeline.group_client import GroupError
from docstore.pipeline.options import Options
from docstore.pipeline.planning import fair, shares
from docstore.pipeline.reading import RowShaper
from docstore.query.cut import Cut, is_token, unpack_cut

MODES = ("full", "latest", "keys")
ON_TRIM = ("fail", "snapshot", "skip")
KEYS = ("slot", "seq", "documentSelfLink", "documentVersion", "deleted")
GONE = "snapshot-gone"
CONSUMER_TTL_S = 86_400
RETAIN_AGAIN_S = 30.0
"""Seconds between two renewals of a consumer's snapshot; a late one keeps some more history."""

log = logging.getLogger("docstore.pipeline")


class TrimmedFeed(PipelineError):
    """Changes after the feed's offset have been deleted."""


def own_columns(options: Options) -> list[str]:
    """Return the columns of the store that the options name, or the defaults."""
    mode, members = options.choice("mode", MODES), options.text("members")
    every = list(KEYS if mode == "keys" else FEED)
    names = options.words("columns") or [n for n in every if not (members and n == "body")]
    if options.flag("preImage") and "before" not in names:
        names.append("before")
    return names


def default_schema(options: Options) -> StructType | str:
    return with_members(schema_of(own_columns(options)), options.text("members"))


def position(options: Options, name: str, default: str) -> Cut:
    """Return the cut that an option names: earliest, latest, a time, a snapshot or a token."""
    text, group = options.text(name, default), options.group
    if text == "earliest":
        high = group.high(options.path)
        return Cut(high["clusterId"], tuple((0, n) for n in high["kept"]))
    return unpack_cut(text if is_token(text) else group.plan(text, prefix=options.path)["cut"])


Ends = tuple[Cut, Cut]
"""(start, end) of a bounded read, as cuts."""


def ends_of(options: Options) -> Ends | Exception:
    """Return the cuts of the options `start` and `end`, or the error that they cause.

    The error is returned since an endless read does not need the cuts, and Spark says only later
    whether the read is bounded.
    """
    try:
        start = position(options, "start", "earliest")
        end = position(options, "end", "latest")
        insist_on_order(start, end)
    except (GroupError, OSError, BadRequest, ValueError) as error:
        return error
    return start, end


def insist_on_order(start: Cut, end: Cut) -> None:
    """Raise ValueError if the end is before the start: a read would have no rows and no error."""
    if start.cluster != end.cluster:
        raise ValueError("docstore: `start` and `end` must be cuts of the same group")
    steps = [n - begun for (_, begun), (_, n) in zip(start.positions, end.positions, strict=True)]
    if min(steps, default=0) < 0 and max(steps) <= 0:
        raise ValueError("docstore: `end` must not be a cut from before `start`")


class ChangeFeed:
    """Plans and reads the changes, for bounded and endless readers."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self._rows = RowShaper(options, schema, own_columns(options))
        self._on_trim = options.choice("onTrim", ON_TRIM)

    def split(self, after: Cut, until: Cut) -> list[InputPartition]:
        ends = zip(after.positions, until.positions, strict=True)
        spans = [(slot, a, b) for slot, ((_, a), (_, b)) in enumerate(ends) if b > a]
        return self._partitions(spans, is_log=True)

    def snapshot(self, cut: Cut) -> list[InputPartition]:
        spans = [(slot, n) for slot, (_, n) in enumerate(cut.positions) if n]
        return self._partitions(spans, is_log=False)

    def _partitions(self, spans: Sequence[scanning.Span], *, is_log: bool) -> list[InputPartition]:
        if not spans:
            return []
        mode = self.options.choice("mode", MODES)
        request = self._rows.request() | {"versions": "all" if mode == "full" and is_log else
                                          "latest"}  # fmt: skip
        layout = self.options.group.layout()
        found = shares(layout, spans, request, self.options, is_log=is_log)
        return [InputPartition(share) for share in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        share: scanning.ScanShare | None = partition.value
        if share is None:
            return
        action = None if share.is_log else "SNAPSHOT"
        try:
            for batch in scanning.batches(share):
                yield from self._rows.shaped(batch, action)
        except GroupError as error:
            if error.code != GONE or not share.is_log:
                raise
            if self._on_trim == "fail":
                raise TrimmedFeed(
                    f"the feed's oldest changes have been deleted: {error.detail}. Start again, or"
                    ' read with option("onTrim", "snapshot") or "skip"'
                ) from None
            yield from self._after_trim(share)

    def _after_trim(self, share: scanning.ScanShare) -> Iterator[pa.RecordBatch]:
        """Yield the changes that are kept, after the state at their beginning if onTrim=snapshot.

        A share whose log is trimmed fails before its first row, so this reads whole slots.
        """
        kept = self.options.group.high(self.options.path)["kept"]
        whole = []
        for slot, after, until in share.spans:
            start = min(until, max(after, kept[slot]))
            whole.append((slot, start, until))
            if start == after:
                continue
            log.warning("slot %d: %d changes were deleted unread", slot, start - after)
            if self._on_trim == "snapshot":
                state = {**share.request, "versions": "latest"}
                at = replace(share, spans=((slot, start),), is_log=False, request=state)
                for batch in scanning.batches(at):
                    yield from self._rows.shaped(batch, "SNAPSHOT")
        for batch in scanning.batches(replace(share, spans=tuple(whole))):
            yield from self._rows.shaped(batch, None)


class FeedReader(ChangeFeed, DataSourceReader):
    """Reads the changes between two cuts."""

    def __init__(self, options: Options, schema: StructType, ends: Ends) -> None:
        super().__init__(options, schema)
        self._ends = ends

    def partitions(self) -> Sequence[InputPartition]:
        return self.split(*self._ends)


class FeedStreamReader(ChangeFeed, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads changes as they are written."""

    def __init__(self, options: Options, schema: StructType) -> None:
        options.refuse("a stream has no end", "end")
        super().__init__(options, schema)
        self._target: Cut | None = None
        self._first: dict[str, Any] | None = None
        self._consumer = options.text("consumer")
        self._retained_at = -inf
        told = f"{options.path}\n{options.where}\n{options.choice('mode', MODES)}"
        self._of = hashlib.sha256(told.encode()).hexdigest()[:16]

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset at which a query without a checkpoint begins; the same at each call."""
        if self._first is None:
            self._first = self._beginning()
            self._retain(self._first)
        return self._first

    def _beginning(self) -> dict[str, Any]:
        if self.options.text("start", "latest") == "snapshot":
            now = position(self.options, "end", "latest")
            nothing = Cut(now.cluster, tuple((0, 0) for _ in now.positions))
            return self._offset(nothing) | {"snapshot": True}
        return self._offset(position(self.options, "start", "latest"))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        rows = self.options.number("maxChangesPerTrigger", 0)
        return ReadMaxRows(rows) if rows else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next batch: all decided rows, or each slot's share of the limit."""
        if start["of"] != self._of:
            raise ValueError(
                "docstore: this checkpoint belongs to another path, where or mode; give the query"
                " a checkpointLocation of its own"
            )
        target = self._target or self._high()
        after = unpack_cut(start["cut"])
        _insist_not_rewritten(after, target)
        if start.get("snapshot"):
            return self._offset(target)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._offset(advanced(after, target, rows))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of this run: later changes are for the next run."""
        self._target = self._high()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return self._offset(self._high())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        until = unpack_cut(end["cut"])
        if start.get("snapshot"):
            return self.snapshot(until)
        return self.split(unpack_cut(start["cut"]), until)

    def commit(self, end: dict[str, Any]) -> None:
        """Move the snapshot of a named consumer up to the offset, every RETAIN_AGAIN_S."""
        if time.monotonic() - self._retained_at >= RETAIN_AGAIN_S:
            self._retain(end)

    def stop(self) -> None:
        """Do nothing: the snapshot of a consumer stays until it expires."""

    def _retain(self, offset: dict[str, Any]) -> None:
        """Keep the changes after an offset, for a named consumer."""
        if self._consumer:
            self._retained_at = time.monotonic()
            ttl_s = self.options.number("consumerTtl", CONSUMER_TTL_S)
            retain(self.options.group, f"consumer-{self._consumer}", offset["cut"], ttl_s)

    def _high(self) -> Cut:
        high = self.options.group.high(self.options.path)
        return Cut(high["clusterId"], tuple(zip(high["epochs"], high["ends"], strict=True)))

    def _offset(self, cut: Cut) -> dict[str, Any]:
        return {"cut": cut.pack(), "of": self._of}


def advanced(after: Cut, target: Cut, rows: int | None) -> Cut:
    """Return the cut at most `rows` changes later. Each slot advances in proportion to its lag."""
    lags = [
        max(0, n - begun)
        for (_, begun), (_, n) in zip(after.positions, target.positions, strict=True)
    ]
    if not sum(lags):
        return after
    if rows is None or sum(lags) <= rows:
        return target
    positions = [
        (epoch if take == lag else before[0], before[1] + take)
        for before, (epoch, _), take, lag in zip(
            after.positions, target.positions, fair(lags, rows), lags, strict=True
        )
    ]
    return Cut(target.cluster, tuple(positions))


def _insist_not_rewritten(after: Cut, target: Cut) -> None:
    """Raise ValueError if a log ends before the offset of the feed, as it is another log then."""
    if after.cluster != target.cluster:
        raise ValueError(
            "docstore: this checkpoint is of another group: give the query a new checkpointLocation"
        )
    for slot, (seen, now) in enumerate(zip(after.positions, target.positions, strict=True)):
        if seen[1] > now[1]:
            raise ValueError(
                f"docstore: slot {slot} was at {seen} (epoch, row), and is now "
                f"at {now}: stored changes were lost, or the group was restored "
                "from an older backup; give the query a new checkpointLocation"
            )
