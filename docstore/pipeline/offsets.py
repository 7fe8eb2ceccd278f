"""Resolve the offsets at which a reader of a topic begins and ends.

As JSON {"0": 123, "1": 45, "of": "..."}: the next offset of each partition, and the incarnation of
the topic, since a topic that is deleted and made again under its name counts from 0.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from docstore.model.settings import quoted
from docstore.pipeline.options import Options
from docstore.pipeline.topics import TopicState

EARLIEST, LATEST = "earliest", "latest"
EARLIEST_IN_JSON, LATEST_IN_JSON = -2, -1
"""Values in an option that is JSON, as in Spark's format for Kafka."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STARTING, ENDING = "startingOffsets", "endingOffsets"
SINCE, UNTIL = "startingTimestamp", "endingTimestamp"
OF = "of"

Given = Mapping[int, int]
"""Partition -> offset, from an option that is JSON."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """The next offset of each partition that existed when the offsets were taken."""

    of: str
    """The topic's incarnation."""
    next: tuple[int, ...]

    def at(self, partition: int) -> int:
        """Return the offset of a partition, 0 for one that was added later."""
        return self.next[partition] if partition < len(self.next) else 0

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that Spark keeps in a checkpoint."""
        return {str(number): each for number, each in enumerate(self.next)} | {OF: self.of}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "Offsets":
        return Offsets(value[OF], tuple(value[str(number)] for number in range(len(value) - 1)))


def check(options: Options) -> None:
    """Raise ValueError for options that are wrong whatever the topic holds."""
    _given(options, STARTING, EARLIEST_IN_JSON)
    _given(options, ENDING, LATEST_IN_JSON)
    if options.text(ENDING) == EARLIEST:
        raise ValueError(
            f'docstore: {ENDING} must be latest or offsets by partition, such as {{"0": 123}}'
        )
    for offset, instant in ((STARTING, SINCE), (ENDING, UNTIL)):
        if options.text(offset) and options.text(instant):
            raise ValueError(f"docstore: give {offset} or {instant}, not both")
        instant_us(options, instant)


def instant_us(options: Options, name: str) -> int | None:
    """Return an option that is a time in microseconds since 1970, None without it."""
    text = options.text(name)
    if not text:
        return None
    if text.isascii() and text.isdecimal():
        return 1000 * int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise ValueError(
            f"docstore: {name} must be a time with its zone, such as 2026-11-20T19:00:00Z, or"
            f" milliseconds since 1970; got {quoted(text)}"
        )
    return max(0, (at - EPOCH) // timedelta(microseconds=1))


def starting(options: Options, topic: TopicState, default: str) -> Offsets:
    """Return the offsets of the option startingOffsets. Raises ValueError."""
    given = _given(options, STARTING, EARLIEST_IN_JSON, topic)
    if given is None:
        is_latest = (options.text(STARTING) or default) == LATEST
        return earliest(topic) if not is_latest else latest(topic)
    return _resolved(given, topic, STARTING, earliest(topic).next)


def ending(options: Options, topic: TopicState) -> Offsets:
    """Return the offsets of the option endingOffsets. Raises ValueError."""
    given = _given(options, ENDING, LATEST_IN_JSON, topic)
    return latest(topic) if given is None else _resolved(given, topic, ENDING, latest(topic).next)


def insist_on_order(options: Options, topic: TopicState, after: Offsets, until: Offsets) -> None:
    """Raise ValueError for a partition whose range ends before it begins.

    With failOnDataLoss=false a range may end before the first record that is kept.
    """
    for number, (first, end) in enumerate(zip(after.next, until.next, strict=True)):
        is_lost = first == topic.partitions[number].base
        if end < first and (options.flag("failOnDataLoss", default=True) or not is_lost):
            raise ValueError(
                f"docstore: {ENDING}: partition {number} of {topic.name} would "
                f"end at {end}, before its start {first}; give a smaller "
                f"{STARTING} or {SINCE}"
            )


def earliest(topic: TopicState) -> Offsets:
    return Offsets(topic.incarnation, tuple(each.base for each in topic.partitions))


def latest(topic: TopicState) -> Offsets:
    """Return the committed end of each partition, as far as it is known.

    Evicted records count as committed even while a new leader does not know its high watermark.
    """
    ends = tuple(max(0, each.base, each.high) for each in topic.partitions)
    return Offsets(topic.incarnation, ends)


def _given(
    options: Options, name: str, least: int, topic: TopicState | None = None
) -> Given | None:
    """Return the offsets of an option in JSON, None if it is a word or empty. Raises ValueError.

    topic: the topic that the offsets must belong to, None while it is not known.
    """
    text = options.text(name)
    if text in ("", EARLIEST, LATEST):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    wrong = ValueError(
        f"docstore: {name} must be {EARLIEST}, {LATEST} or offsets by partition, such as"
        f' {{"0": 123, "1": 45}}; got {quoted(text)}'
    )
    if not isinstance(value, dict):
        raise wrong
    of = value.pop(OF, None)  # Offsets copied from a query's progress have this member.
    if not all(each.isascii() and each.isdecimal() for each in value):
        raise wrong
    if topic is not None and of not in (None, topic.incarnation):
        raise ValueError(
            f"docstore: {name}: these offsets are of a topic {topic.name} "
            "that was deleted and created again since: begin with "
            f"{name}=earliest, or leave {OF!r} out"
        )
    if not all(type(each) is int and each >= least for each in value.values()):
        raise wrong
    return {int(number): offset for number, offset in value.items()}


def _resolved(given: Given, topic: TopicState, name: str, default: Sequence[int]) -> Offsets:
    """Return the given offsets, with words resolved and missing partitions filled in."""
    count = len(topic.partitions)
    unknown = next((number for number in sorted(given) if number >= count), None)
    if unknown is not None:
        raise ValueError(
            f"docstore: {name}: {topic.name} has {count} partitions, 0 to "
            f"{count - 1}; got partition {unknown}"
        )
    words = {EARLIEST_IN_JSON: earliest(topic).next, LATEST_IN_JSON: latest(topic).next}
    found = []
    for number, each in enumerate(topic.partitions):
        offset = given.get(number, default[number])
        offset = words[offset][number] if offset < 0 else offset
        # Compares with the log end: a new leader may not know the committed end at first.
        if offset > each.end:
            raise ValueError(
                f"docstore: {name}: an offset of partition {number} of "
                f"{topic.name} must be at most {each.end}, its end; got {offset}"
            )
        found.append(offset)
    return Offsets(topic.incarnation, tuple(found))
