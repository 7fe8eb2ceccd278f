"""Retention: compact old versions, tombstones and retry keys; keep those that a snapshot pins."""
