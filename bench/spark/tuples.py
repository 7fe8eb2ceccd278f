"""The same scan handed to Spark row by row: what Arrow saves (goal G5).

Only the last step differs: the nodes send Arrow, the task reads it, and gives Spark a tuple for
each row instead of the batch, as sources in Python do that know nothing of Arrow.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from docstore.pipeline.reading import TableReader
from docstore.pipeline.source import DocstoreSource


class TupleSource(DocstoreSource):
    """`format("docstore.tuples")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "docstore.tuples"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read a snapshot, row by row."""
        return TupleReader(self._options, schema)


class TupleReader(TableReader):
    """Reads as a table is read, and takes the batches apart."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield a partition's rows, each a tuple."""
        for batch in super().read(partition):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
