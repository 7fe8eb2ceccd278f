"""Spark over a group: every factory is a table and a stream. See docs/pipeline.md."""
