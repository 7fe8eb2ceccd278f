"""Parsers of settings: strict, with errors of one line that name the key."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docstore.errors import BadConfig

_DIGITS = frozenset("0123456789.eE+-")
WEEK_S = 7 * 86_400.0
TEXT_BYTES_MAX = 4_096
DIGITS_MAX = 20
_UNSHOWN = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\ud800-\\udfff]")
"""Characters not to show in messages: control characters and surrogates (from invalid UTF-8)."""


def listed(value: object) -> list[str]:
    """Split a text at its commas, or several texts; drop empty parts."""
    parts = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    texts = [text.strip() for part in parts for text in str(part).split(",")]
    return [text for text in texts if text]


def listed_some(value: object, key: str) -> list[str]:
    """Parse a list as `listed` does. Raises BadConfig for "" (not for an absent list)."""
    if value is None or value == []:
        return []
    found = listed(value)
    if not found:
        raise BadConfig(f"{key}: must not be empty: name nodes, or leave the setting out")
    return found


def quoted(value: object) -> str:
    """Return the beginning of a wrong value on one line, in JSON's words, for an error message."""
    match value:
        case None | True | False:
            return json.dumps(value)
        case dict() | list() | tuple():
            return "an object" if isinstance(value, dict) else "an array"
        case str() | bytes():
            return repr(value[:40])
    return repr(value)[:40]


def text(
    settings: Mapping[str, Any], key: str, *, may_be_empty: bool = True, most: int = TEXT_BYTES_MAX
) -> str:
    """Parse a text, "" where there is none. Raises BadConfig.

    may_be_empty: whether the setting may be "". most: bytes in UTF-8.
    """
    value = settings.get(key)
    if value is None:
        return ""
    if not isinstance(value, str | Path):
        raise BadConfig(f"{key}: must be a string; got {quoted(value)}")
    said = str(value)
    if not said and not may_be_empty:
        raise BadConfig(f"{key}: must not be empty: give a value, or leave the setting out")
    if _UNSHOWN.search(said) or len(said.encode()) > most:
        raise BadConfig(f"{key}: {quoted(said)} is not one line of at most {most} bytes in UTF-8")
    return said


def integer(value: object, key: str, least: int, most: int) -> int:
    text = str(value)
    is_number = text.isascii() and text.isdecimal() and not isinstance(value, bool)
    if not is_number or len(text) > DIGITS_MAX or not least <= int(text) <= most:
        raise BadConfig(f"{key}: {text[:40]!r} is not a whole number from {least} to {most}")
    return int(text)


def seconds(
    settings: Mapping[str, Any], key: str, default: float, least: float = 0.01, most: float = 3600
) -> float:
    value = settings.get(key, default)
    is_strange = isinstance(value, bool) or (isinstance(value, str) and not set(value) <= _DIGITS)
    try:
        length_s = float("" if is_strange else value)
    except (TypeError, ValueError, OverflowError):
        raise BadConfig(f"{key}: {quoted(value)} is not a number of seconds") from None
    if not least <= length_s <= most:
        raise BadConfig(f"{key}: {length_s} is not between {least} and {most} seconds")
    return length_s


def flag(value: object, key: str) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("1", "true", "yes"):
        return True
    if str(value).lower() in ("0", "false", "no", ""):
        return False
    raise BadConfig(f"{key}: {quoted(value)} is not true or false")


def choice(value: object, key: str, choices: Sequence[str]) -> str:
    if value not in choices:
        raise BadConfig(f"{key}: {quoted(value)} is not one of {', '.join(choices)}")
    return str(value)
