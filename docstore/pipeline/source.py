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

from docstore.pipeline import admin, aggregating, feeding
from docstore.pipeline import options as known
from docstore.pipeline.options import Options
from docstore.pipeline.reading import TableReader, default_schema
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

    def schema(self) -> StructType:
        """Return the store's own columns, those of the option `columns`, or of aggregates."""
        grouping = self._options.grouping
        return (
            default_schema(self._options) if grouping is None else aggregating.schema_of(grouping)
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read a snapshot, or aggregates of it."""
        grouping = self._options.grouping
        if grouping is not None:
            return aggregating.AggregateReader(self._options, grouping, schema)
        return TableReader(self._options, schema)

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

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "docstore.changes"

    def schema(self) -> StructType:
        """Return the columns of the feed's mode, or those of the option `columns`."""
        return feeding.default_schema(self._options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read the changes between two cuts."""
        return feeding.FeedReader(self._options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Read changes as they come."""
        return feeding.FeedStreamReader(self._options, schema)


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
