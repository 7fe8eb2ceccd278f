"""Choose the topics of one reader: one by its path, some by name, or all that match a pattern.

Each topic has options of its own, as if it were read alone. The offsets of several topics are
{"flights": {"0": 123, "of": "..."}, "delays": {...}}, those of one topic as in `offsets.py`.

Source: Spark's format for Kafka, whose options these are.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from docstore.model.settings import quoted
from docstore.pipeline import offsets
from docstore.pipeline.offsets import ENDING, STARTING, Offsets
from docstore.pipeline.options import Options
from docstore.pipeline.topics import TOPICS, group_of

SUBSCRIBE, PATTERN = "subscribe", "subscribePattern"


def is_one(options: Options) -> bool:
    """Say whether a reader reads the topic of its path."""
    return not options.text(SUBSCRIBE) and not options.text(PATTERN)


def check(options: Options) -> None:
    """Raise ValueError for options that are wrong whatever the topics hold."""
    given = [name for name in ("path", SUBSCRIBE, PATTERN) if options.text(name)]
    if len(given) > 1:
        raise ValueError(f"docstore: give one of {' and '.join(given)}, not both")
    if is_one(options):
        assert options.topic
        offsets.check(options)
        return
    try:
        re.compile(options.text(PATTERN))
    except re.error as error:
        raise ValueError(f"docstore: {PATTERN} must be a regular expression: {error}") from None
    named = {name for option in (STARTING, ENDING) for name in _parts(options, option) or ()}
    unknown = next((name for name in sorted(named) if not _is_chosen(options, name)), None)
    if unknown is not None:
        raise ValueError(f"docstore: {quoted(unknown)} has offsets, and is not subscribed to")
    for name in named or {"any"}:
        offsets.check(alone(options, name))


def topics_of(options: Options) -> dict[str, Options]:
    """Return the options of each topic by its name. Raises GroupError, OSError."""
    if is_one(options):
        return {options.topic: options}
    names = options.words(SUBSCRIBE)
    if not names:
        names = [name for name in _all_topics(options) if _is_chosen(options, name)]
    return {name: alone(options, name) for name in dict.fromkeys(names)}


def alone(options: Options, name: str) -> Options:
    """Return the options of one topic."""
    if is_one(options):
        return options
    said = {"path": name, SUBSCRIBE: "", PATTERN: ""}
    for option in (STARTING, ENDING):
        parts = _parts(options, option)
        if parts is not None:
            said[option] = json.dumps(parts[name]) if name in parts else ""
    return options.with_(**said)


def to_json(options: Options, found: Mapping[str, Offsets]) -> dict[str, Any]:
    """Return the JSON that Spark keeps in a checkpoint."""
    every = {name: each.to_json() for name, each in found.items()}
    return every[options.topic] if is_one(options) else every


def from_json(options: Options, value: Mapping[str, Any]) -> dict[str, Offsets]:
    """Return the offsets by topic. Raises ValueError for those of another kind of reader."""
    if is_one(options) != (offsets.OF in value and isinstance(value[offsets.OF], str)):
        raise ValueError(
            "docstore: the checkpoint is of a query on other topics: path, subscribe and"
            " subscribePattern have offsets of their own; give the query a new checkpointLocation"
        )
    every = {options.topic: value} if is_one(options) else value
    return {name: Offsets.from_json(each) for name, each in every.items()}


def _parts(options: Options, name: str) -> dict[str, Any] | None:
    """Return topic -> its part of an option in JSON, None if the option is a word or empty."""
    text = options.text(name)
    if text in ("", offsets.EARLIEST, offsets.LATEST):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
        raise ValueError(
            f"docstore: {name} must be {offsets.EARLIEST}, {offsets.LATEST} or offsets by topic and"
            f' partition, such as {{"flights": {{"0": 123}}}}; got {quoted(text)}'
        )
    return value


def _is_chosen(options: Options, name: str) -> bool:
    if options.text(SUBSCRIBE):
        return name in options.words(SUBSCRIBE)
    return re.fullmatch(options.text(PATTERN), name) is not None


def _all_topics(options: Options) -> list[str]:
    found: list[str] = []
    link = TOPICS
    while link:
        page = group_of(options).json("GET", link)
        found += [each.rpartition("/")[2] for each in page["documentLinks"]]
        link = page.get("nextPageLink", "")
    return found
