"""Makes the format "docstore" known to Spark, which looks for modules that begin with pyspark_."""

from docstore.pipeline.source import DocstoreSource as DefaultSource

__all__ = ["DefaultSource"]
