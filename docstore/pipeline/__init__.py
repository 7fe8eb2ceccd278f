"""Spark over a group: every factory is a table and a stream. See docs/pipeline.md.

    from docstore import pipeline

    spark = pipeline.session()
    films = pipeline.read(spark, "http://n1:8001", "/films", where="rating > 7")
    feed = pipeline.changes(spark, "http://n1:8001", "/films", start=films.cut)
    pipeline.write(films.limit(10), "http://n1:8001", "/best", foreignLinks="move")

A node never imports this package; it needs the extra `docstore[spark]`, and Java 17 or 21.
"""

try:
    import pyspark
except ImportError as error:
    raise ImportError("docstore.pipeline needs PySpark: pip install 'docstore[spark]'") from error

from docstore.pipeline.cuts import drop_snapshot, snapshot
from docstore.pipeline.errors import PipelineError, line_of
from docstore.pipeline.sessions import JavaMissing, register, session
from docstore.pipeline.tables import aggregate, changes, cut_of, lookup, read, write
from docstore.pipeline.writing import finish

__all__ = [
    "JavaMissing",
    "PipelineError",
    "aggregate",
    "changes",
    "cut_of",
    "drop_snapshot",
    "finish",
    "line_of",
    "lookup",
    "read",
    "register",
    "session",
    "snapshot",
    "write",
]
