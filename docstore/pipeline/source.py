"""The formats, as Spark asks for them: options in, readers and writers out."""

from collections.abc import MutableMapping

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
from docstore.pipeline.reading import TableReader, default_schema
from docstore.pipeline.stream_writing import RecordsStreamWriter, RecordsWriter
from docstore.pipeline.writing import StreamWriter, TableWriter


class DocstoreSource(DataSource):
    """`spark.read.format("docstore").option("url", ...).load("/orders")`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        every = [*known.COMMON, *known.READ, *known.WRITE]
        self._options = Options.of(dict(options), every).checked()

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "docstore"

    def schema(self) -> StructType | str:
        """Return the store's own columns, those of the option `columns`, or of aggregates.

        Spark asks when it resolves a relation: this is when the cut is pinned. Raises GroupError.
        """
        grouping = self._options.grouping
        columns = (
            default_schema(self._options) if grouping is None else aggregating.schema_of(grouping)
        )
        self._options = cuts.pinned(self._options)
        return columns

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read a snapshot, or aggregates of it."""
        grouping = self._options.grouping
        reader: DataSourceReader = (
            TableReader(self._options, schema)
            if grouping is None
            else aggregating.AggregateReader(self._options, grouping, schema)
        )
        cuts.insist_on_cut(self._options, "asOf")
        return reader

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Write a DataFrame: modes append and overwrite."""
        return TableWriter(self._options, schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802
        self,
        schema: StructType,
        overwrite: bool,
    ) -> DataSourceStreamWriter:
        """Write what a query gives, batch after batch."""
        return StreamWriter(self._options, schema)


class ChangesSource(DataSource):
    """`spark.readStream.format("docstore.changes").option("url", ...).load("/orders")`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        every = [*known.COMMON, *known.FEED]
        self._options = Options.of(dict(options), every).checked()
        self._ends: feeding.Ends | Exception | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "docstore.changes"

    def schema(self) -> StructType | str:
        """Return the columns of the feed's mode, or those of the option `columns`."""
        self._ends = feeding.ends_of(self._options)
        return feeding.default_schema(self._options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read the changes between two cuts."""
        if self._ends is None:
            cuts.insist_on_cut(self._options, "start", "end")
            self._ends = feeding.ends_of(self._options)
        if isinstance(self._ends, Exception):
            raise self._ends
        return feeding.FeedReader(self._options, schema, self._ends)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Read changes as they come."""
        return feeding.FeedStreamReader(self._options, schema)


class RecordsSource(DataSource):
    """`spark.readStream.format("docstore.stream").option("url", ...).load("flights")`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = Options.of(dict(options), [*known.COMMON, *known.STREAM])
        streaming.check(self._options)
        self._ends: streaming.Ends | Exception | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "docstore.stream"

    def schema(self) -> StructType | str:
        """Return the columns of records, or those of the option `columns`.

        Spark asks when it resolves a relation: this is when the ends of a bounded read are pinned.
        """
        self._ends = streaming.ends_of(self._options)
        return record_columns.schema_of(self._options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read the records between two offsets."""
        if self._ends is None:
            raise ValueError(
                "docstore: a topic has columns of its own, so no .schema(...): the options"
                " columns, keyAs and valueAs choose among them"
            )
        if isinstance(self._ends, Exception):
            raise self._ends
        return streaming.RecordsReader(self._options, schema, self._ends)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Read records as they come."""
        return streaming.RecordsStreamReader(self._options, record_columns.schema_of(self._options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Append a DataFrame."""
        return RecordsWriter(self._options, schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802
        self,
        schema: StructType,
        overwrite: bool,
    ) -> DataSourceStreamWriter:
        """Append what a query gives, batch after batch."""
        return RecordsStreamWriter(self._options, schema)


class AdminSource(DataSource):
    """`spark.read.format("docstore.admin").option("url", ...).load("slots")`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = Options.of(dict(options), known.COMMON)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "docstore.admin"

    def schema(self) -> str:
        """Return the columns of the table."""
        return admin.schema_of(self._options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read the table."""
        return admin.AdminReader(self._options)
