"""Read a factory as a table: the reader behind `format("docstore")`.

Its cut is pinned before (`cuts.py`), so all scans of a relation see the same rows. A reader is
pickled to the executors, so it holds values only, no connections.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from docstore.model.slots import slot_of
from docstore.pipeline import bodies, scanning
from docstore.pipeline.columns import (
    ENVELOPE,
    TABLE,
    insist_on_members,
    insist_on_own_types,
    schema_of,
    wire_columns,
    with_members,
)
from docstore.pipeline.kinds import check_members
from docstore.pipeline.options import PARSE_MODES, STRINGS, Options
from docstore.pipeline.planning import shares
from docstore.query.parser import parse

CORRUPT = "columnNameOfCorruptRecord"
CORRUPT_DEFAULT = "_corrupt_record"
VERSIONS = ("latest", "all")


def own_columns(options: Options) -> list[str]:
    """Return the columns of the store that the options name, or the defaults."""
    names = options.words("columns")
    without_body = options.text("bodyAs", "string") == "none" or (
        options.text("members") and not names
    )
    return [name for name in names or TABLE if not (without_body and name == "body")]


def default_schema(options: Options) -> StructType | str:
    return with_members(schema_of(own_columns(options)), options.text("members"))


class TableReader(DataSourceReader):
    """Reads the documents at a cut, or all their versions up to it."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.rows = RowShaper(options, schema, own_columns(options))

    def partitions(self) -> Sequence[InputPartition]:
        options = self.options
        request = self.rows.request() | {
            "versions": options.choice("versions", VERSIONS),
            "deleted": options.flag("includeDeleted"),
        }
        return [InputPartition(share) for share in snapshot_shares(options, request)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:
            return  # No shares are needed; Spark calls this nevertheless.
        for batch in scanning.batches(partition.value):
            yield from self.rows.shaped(batch)


def snapshot_shares(options: Options, request: Mapping[str, Any]) -> list[scanning.ScanShare]:
    """Plan the shares of a snapshot, without slots in which the condition finds nothing.

    request: members of the scan's request other than its slots. Raises GroupError, OSError.
    """
    plan = options.group.plan(options.text("asOf", "latest"), options.path)
    slots = _slots_that_matter(options, len(plan["ends"]))
    spans = [(slot, n) for slot, n in enumerate(plan["ends"]) if n > 0 and slot in slots]
    return shares(plan, spans, request, options, is_log=False)


def request_of(options: Options) -> dict[str, Any]:
    """Return the members of a scan's request that are common to all kinds of reads."""
    return {
        "prefix": options.path + "/",
        "where": options.where,
        "job": options.text("job"),
        "rowsPerSecond": options.number("rowsPerSecond", 0),
        "catchUpMs": options.number("catchUpMs", 2000),
    }


class RowShaper:
    """Converts batches of a scan to a schema, for tables and feeds."""

    def __init__(self, options: Options, schema: StructType, own: Collection[str]) -> None:
        """own: the columns of the store that accompany the option `members`. Raises ValueError."""
        if options.text("members"):
            insist_on_members(name for name in schema.names if name not in own)
        insist_on_own_types(schema)
        self._corrupt = options.text(CORRUPT, CORRUPT_DEFAULT)
        self._mode = options.choice("parseMode", PARSE_MODES)
        self._any_is_text = options.choice("strings", STRINGS) == "any"
        self._schema = schema
        self._options = options
        self._members = [n for n in schema.names if n not in ENVELOPE and n != self._corrupt]
        check_members(schema, self._members)
        self._wire = wire_columns(schema, self._corrupt)
        if self._members and self._mode == bodies.FAIL and "documentSelfLink" not in self._wire:
            self._wire.append("documentSelfLink")  # For the message of Malformed.

    def request(self) -> dict[str, Any]:
        """Return the members of a scan's request that are common to all shares."""
        compression = self._options.text("compression")
        return request_of(self._options) | {"columns": self._wire, "compression": compression}

    def shaped(self, batch: pa.RecordBatch, action: str | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the batch with the columns and types of the schema.

        action: replaces the action of each version. Such a row is not a change, so it has no
        `before`.
        """
        if action is not None:
            said = {"documentUpdateAction": action, "before": None}
            for name in said.keys() & set(batch.schema.names):
                at = batch.schema.names.index(name)
                array = pa.array([said[name]] * batch.num_rows, pa.string())
                batch = batch.set_column(at, name, array)
        target = to_arrow_schema(self._schema, timezone="UTC")
        fields = [target.field(name) for name in self._members]
        parsed: dict[str, pa.Array] = {}
        good = None
        if fields:
            links = batch.column("documentSelfLink") if self._mode == bodies.FAIL else None
            arrays, good = bodies.members(
                _body(batch), fields, self._mode, links=links, any_is_text=self._any_is_text
            )
            parsed = dict(zip((field.name for field in fields), arrays, strict=True))
        columns = [self._column(batch, field, parsed, good) for field in target]
        shaped = pa.RecordBatch.from_arrays(columns, schema=target)
        if good is not None and self._mode == bodies.DROP:
            shaped = shaped.filter(good)
        if shaped.num_rows:
            yield shaped

    def _column(
        self, batch: pa.RecordBatch, field: pa.Field, parsed: dict[str, pa.Array], good: Any
    ) -> pa.Array:
        if field.name in parsed:
            return parsed[field.name].cast(field.type)
        if field.name == self._corrupt:
            if good is None:
                return pa.nulls(batch.num_rows, field.type)
            return pc.if_else(good, None, _body(batch))
        array = batch.column(ENVELOPE[field.name].wire)
        if pa.types.is_timestamp(field.type):
            array = array.cast(pa.int64())
        return array if array.type == field.type else array.cast(field.type)


def _body(batch: pa.RecordBatch) -> pa.Array:
    return batch.column("body").cast(pa.string())


def _slots_that_matter(options: Options, count: int) -> frozenset[int] | range:
    """Return the slots in which a condition on links may find a document."""
    where = options.where
    links = parse(where).links if where.strip() else None
    return range(count) if links is None else frozenset(slot_of(link, count) for link in links)
