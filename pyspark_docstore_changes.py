"""Makes the format "docstore.changes" known to Spark."""

from docstore.pipeline.source import ChangesSource as DefaultSource

__all__ = ["DefaultSource"]
