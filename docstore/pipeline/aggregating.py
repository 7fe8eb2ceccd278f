"""Aggregate a factory: the nodes compute partial results, and one task merges them.

A node sends a line for each group of each page, and no documents. So one task is enough, and its
rows are the final results. A share whose answer breaks off is asked for again as a whole.
"""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, StructField, StructType

from docstore.pipeline import scanning
from docstore.pipeline.errors import PipelineError
from docstore.pipeline.group_client import GroupClient
from docstore.pipeline.options import Options
from docstore.pipeline.reading import request_of, snapshot_shares
from docstore.query.aggregates import BIGINT, BOOLEAN, DOUBLE, STRING, Grouping, Totals

TYPES = {BIGINT: LongType(), DOUBLE: DoubleType(), STRING: StringType(), BOOLEAN: BooleanType()}
SHARES_AT_ONCE = 8
GROUPS_MAX = 250_000
"""Groups of some 100 MB in the task; Spark groups larger results better than one task does."""


class TooManyGroups(PipelineError):
    """The result has more groups than one task may hold."""


def schema_of(grouping: Grouping) -> StructType:
    """Return the schema of the results: a column for each key and each function."""
    columns = grouping.columns
    counts = {each.name for each in grouping.aggregates if each.function == "count"}
    return StructType(
        [StructField(name, TYPES[type_], name not in counts) for name, type_ in columns]
    )


class AggregateReader(DataSourceReader):
    """Reads aggregates of the documents at a cut."""

    def __init__(self, options: Options, grouping: Grouping, schema: StructType) -> None:
        own = schema_of(grouping)
        if schema.names != own.names:
            raise ValueError(
                f"docstore: the columns of these aggregates must be {own.simpleString()}"
            )
        self._options = options
        self._grouping = grouping
        self._schema = own

    def partitions(self) -> Sequence[InputPartition]:
        """Plan one task for all shares."""
        asked = {name: self._options.text(name) for name in ("aggregates", "groupBy")}
        request = request_of(self._options) | asked
        return [InputPartition(snapshot_shares(self._options, request))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the results, as Arrow. Raises GroupError, OSError, TooManyGroups, OverflowError."""
        totals = Totals(self._grouping)
        with ThreadPoolExecutor(SHARES_AT_ONCE) as pool:
            for part in pool.map(partial(totals_of, self._grouping), partition.value):
                totals.merge(part)
                _insist_on_few(totals)
        rows = list(totals.rows())
        schema = to_arrow_schema(self._schema)
        arrays = [
            pa.array((row[at] for row in rows), field.type) for at, field in enumerate(schema)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def totals_of(grouping: Grouping, share: scanning.ScanShare) -> Totals:
    """Return the results of a share. Raises GroupError, OSError, TooManyGroups."""

    def ask(group: GroupClient, node: scanning.ScanNode) -> Iterator[Totals]:
        totals = Totals(grouping)
        body = {**share.request, "cut": share.spans}
        ending = None
        with group.open("POST", node.url, "/core/spark/scan", body) as answer:
            for line in answer:
                value = json.loads(line)
                if isinstance(value, dict):
                    ending = value
                    break
                totals.add(value)
                _insist_on_few(totals)
            scanning.check_ending(ending, totals.documents, node)
        yield totals

    merged = Totals(grouping)
    for part in scanning.from_any_copy(share, ask, partial(map, partial(totals_of, grouping))):
        merged.merge(part)
    return merged


def _insist_on_few(totals: Totals) -> None:
    if len(totals.groups) > GROUPS_MAX:
        raise TooManyGroups(
            f"docstore: more than {GROUPS_MAX} groups; read the documents and let Spark group them"
        )
