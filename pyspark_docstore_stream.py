"""Makes the format "docstore.stream" known to Spark."""

from docstore.pipeline.source import RecordsSource as DefaultSource

__all__ = ["DefaultSource"]
