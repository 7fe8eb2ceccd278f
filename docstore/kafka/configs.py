"""The settings of a topic by Kafka's names: their values as text, and changes of them.

`retention.ms=-1` is for ever, which is 0 in docstore. A leader leaves the batches of Kafka clients
as they came, so `compression.type=producer` is "none": it compresses those of other clients only.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from docstore.streams.log_times import AHEAD_US_MAX
from docstore.streams.topic import Topic

HEAD_BYTES_MAX = 1024
"""Bytes by which a RecordBatch may exceed `batchBytesMax`: so a record of that size fits."""
AHEAD_MS_MAX = AHEAD_US_MAX // 1000
"""Milliseconds by which the time of a record may be ahead of the node's clock."""
BOOLEAN, TEXT, WHOLE, LONG, LIST = 1, 2, 3, 5, 7
"""Kafka's codes of types."""
SET, DELETE = 0, 1
"""Kafka's codes of the operations on a setting that are served."""


class ConfigRefused(Exception):
    """A setting that a topic does not have, or a value that it cannot have."""


class Setting(NamedTuple):
    """A setting of topics. path: of its member in a topic's state; () if it cannot be changed.

    shown: returns the value of a topic as text. read: returns the member for a text; raises
    ValueError.
    """

    kind: int
    shown: Callable[[Topic], str]
    path: tuple[str, ...] = ()
    read: Callable[[str], Any] = int


def _unbounded(value: int) -> str:
    return str(value or -1)


def _bound(text: str) -> int:
    value = int(text)
    if value == 0:
        raise ValueError
    return max(0, value)


def _compression(text: str) -> str:
    return {"producer": "none", "uncompressed": "none", "zstd": "zstd"}[text]


def _cleanup(text: str) -> str:
    """Return the policies of a list in docstore's order; the topic refuses others."""
    return ",".join(sorted(each.strip() for each in text.split(",")))


def _flag(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


SETTINGS: Mapping[str, Setting] = {
    "cleanup.policy": Setting(LIST, lambda topic: topic.cleanup, ("cleanup",), _cleanup),
    "compression.type": Setting(
        TEXT,
        lambda topic: "producer" if topic.compression == "none" else topic.compression,
        ("compression",),
        _compression,
    ),
    "max.message.bytes": Setting(WHOLE, lambda topic: str(topic.batch_bytes_max + HEAD_BYTES_MAX)),
    "message.timestamp.after.max.ms": Setting(LONG, lambda topic: str(AHEAD_MS_MAX)),
    "message.timestamp.type": Setting(TEXT, lambda topic: "CreateTime"),
    "min.insync.replicas": Setting(WHOLE, lambda topic: str(topic.min_in_sync), ("minInSync",)),
    "retention.bytes": Setting(
        LONG, lambda topic: _unbounded(topic.retention_bytes), ("retention", "bytes"), _bound
    ),
    "retention.ms": Setting(
        LONG, lambda topic: _unbounded(topic.retention_ms), ("retention", "ms"), _bound
    ),
    "unclean.leader.election.enable": Setting(
        BOOLEAN, lambda topic: str(topic.unclean).lower(), ("unclean",), _flag
    ),
}
"""Name -> setting."""

AT_CREATION: Mapping[str, Setting] = {
    **SETTINGS,
    "max.message.bytes": Setting(
        WHOLE, lambda topic: "", ("batchBytesMax",), lambda text: int(text) - HEAD_BYTES_MAX
    ),
}


def members_of(
    given: Mapping[str, str | None], settings: Mapping[str, Setting] = SETTINGS
) -> dict[str, Any]:
    """Return the members of a topic's state for these settings. Raises ConfigRefused."""
    members: dict[str, Any] = {}
    for name, text in given.items():
        setting = settings.get(name)
        if setting is None or not setting.path:
            changeable = sorted(each for each, known in settings.items() if known.path)
            raise ConfigRefused(f"{name} cannot be set; {', '.join(changeable)} can")
        if text is None:
            continue
        try:
            value = setting.read(text)
        except (ValueError, KeyError):
            raise ConfigRefused(f"{name} cannot be {text[:80]!r}") from None
        *above, last = setting.path
        inner = members
        for each in above:
            inner = inner.setdefault(each, {})
        inner[last] = value
    return members


def defaults_of(topic: Topic) -> dict[str, str]:
    """Return name -> text of the changeable settings that a new topic would have."""
    factor = topic.replication_factor
    fresh = Topic(
        name=topic.name, incarnation=topic.incarnation, replication_factor=factor,
        min_in_sync=max(1, factor - 1),
    )  # fmt: skip
    return {name: each.shown(fresh) for name, each in SETTINGS.items() if each.path}


def changes_of(topic: Topic, asked: Sequence[tuple[str, int, str | None]]) -> dict[str, Any]:
    """Return the members to change. asked: (name, operation, value). Raises ConfigRefused."""
    given: dict[str, str | None] = {}
    defaults = defaults_of(topic)
    for name, operation, value in asked:
        if operation not in (SET, DELETE):
            raise ConfigRefused(f"{name}: only SET and DELETE are served")
        given[name] = value if operation == SET else defaults.get(name, "")
    return members_of(given)
