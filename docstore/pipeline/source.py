"""Define the formats of Spark: options in, readers and writers out."""

from collections.abc import MutableMapping, Sequence
from typing import ClassVar, TypeVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from docstore.pipeline import admin, aggregating, cuts, feeding, record_columns, streaming
from docstore.pipeline import options as known
from docstore.pipeline.options import Options
from docstore.pipeline.pushing import RELATION, PushingReader
from docstore.pipeline.reading import TableReader, default_schema
from docstore.pipeline.stream_writing import RecordsStreamWriter, RecordsWriter
from docstore.pipeline.writing import StreamWriter, TableWriter

T = TypeVar("T")


class _Source(DataSource):
    form: ClassVar[str]
    """The name of the format."""
    names: ClassVar[Sequence[str]]
    """The options of the format."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = Options.of(dict(options), self.names)

    @classmethod
    def name(cls) -> str:
        return cls.form


def _raised(ends: T | Exception) -> T:
    """Return the ends of a bounded read, or raise them if they are an error."""
    if isinstance(ends, Exception):
        raise ends
    return ends


class DocstoreSource(_Source):
    """`spark.read.format("docstore").option("url", ...).load("/orders")`."""

    form = "docstore"
    names = (*known.COMMON, *known.READ, *known.WRITE)

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = self._options.checked()

    def schema(self) -> StructType | str:
        """Return the columns of the options, and pin the cut. Raises GroupError.

        Spark asks when it resolves a relation.
        """
        grouping = self._options.grouping
        columns = (
            default_schema(self._options) if grouping is None else aggregating.schema_of(grouping)
        )
        self._options = cuts.pinned(self._options)
        return columns

    def reader(self, schema: StructType) -> DataSourceReader:
        grouping = self._options.grouping
        reader: DataSourceReader
        if grouping is not None:
            reader = aggregating.AggregateReader(self._options, grouping, schema)
        elif self._options.text(RELATION):
            reader = PushingReader(self._options, schema)
        else:
            reader = TableReader(self._options, schema)
        cuts.insist_on_cut(self._options, "asOf")
        return reader

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return TableWriter(self._options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return StreamWriter(self._options, schema)


class ChangesSource(_Source):
    """`spark.readStream.format("docstore.changes").option("url", ...).load("/orders")`."""

    form = "docstore.changes"
    names = (*known.COMMON, *known.FEED)

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = self._options.checked()
        self._ends: feeding.Ends | Exception | None = None

    def schema(self) -> StructType | str:
        """Return the columns of the options, and pin the ends of a bounded read."""
        self._ends = feeding.ends_of(self._options)
        return feeding.default_schema(self._options)

    def reader(self, schema: StructType) -> DataSourceReader:
        if self._ends is None:
            cuts.insist_on_cut(self._options, "start", "end")
            self._ends = feeding.ends_of(self._options)
        return feeding.FeedReader(self._options, schema, _raised(self._ends))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return feeding.FeedStreamReader(self._options, schema)


class RecordsSource(_Source):
    """`spark.readStream.format("docstore.stream").option("url", ...).load("flights")`."""

    form = "docstore.stream"
    names = (*known.COMMON, *known.STREAM)

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        streaming.check(self._options)
        self._ends: streaming.Ends | Exception | None = None

    def schema(self) -> StructType | str:
        """Return the columns of the options, and pin the ends of a bounded read."""
        self._ends = streaming.ends_of(self._options)
        return record_columns.schema_of(self._options)

    def reader(self, schema: StructType) -> DataSourceReader:
        if self._ends is None:
            raise ValueError(
                "docstore: a topic has columns of its own, so no .schema(...): the options"
                " columns, keyAs and valueAs choose among them"
            )
        return streaming.RecordsReader(self._options, schema, _raised(self._ends))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return streaming.RecordsStreamReader(self._options, record_columns.schema_of(self._options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return RecordsWriter(self._options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return RecordsStreamWriter(self._options, schema)


class AdminSource(_Source):
    """`spark.read.format("docstore.admin").option("url", ...).load("slots")`."""

    form = "docstore.admin"
    names = tuple(known.COMMON)

    def schema(self) -> str:
        return admin.schema_of(self._options)

    def reader(self, schema: StructType) -> DataSourceReader:
        return admin.AdminReader(self._options)
