"""Makes the format "docstore.admin" known to Spark."""

from docstore.pipeline.source import AdminSource as DefaultSource

__all__ = ["DefaultSource"]
