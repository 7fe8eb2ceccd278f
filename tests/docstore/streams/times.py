"""Times and bounds of the machines under test, by their bare names."""

from dataclasses import fields, replace
from typing import Any

from docstore.streams.timing import StreamsConfig


def config_of(times: dict[str, float]) -> StreamsConfig:
    """Return the times and bounds that a test names."""
    known = StreamsConfig()
    parts: dict[str, Any] = {}
    for name, value in times.items():
        [part] = [each.name for each in fields(known) if hasattr(getattr(known, each.name), name)]
        parts[part] = replace(parts.get(part, getattr(known, part)), **{name: value})
    return replace(known, **parts)
