"""Values of settings: read strictly, or refused in one line that names the key."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docstore.errors import BadConfig

_DIGITS = frozenset("0123456789.eE+-")
WEEK_S = 7 * 86_400.0


def listed(value: object) -> list[str]:
    """Return what stands in a text with commas, or in several of them; empty ones are none."""
    parts = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    texts = [text.strip() for part in parts for text in str(part).split(",")]
    return [text for text in texts if text]


def text(settings: Mapping[str, Any], key: str) -> str:
    """Return a text, "" where it is not said. Raises BadConfig: a number is no directory."""
    value = settings.get(key, "")
    if not isinstance(value, str | Path):
        raise BadConfig(f"{key}: {str(value)[:40]} is not a text")
    return str(value)


def integer(value: object, key: str, least: int, most: int) -> int:
    """Return a whole number within bounds. Raises BadConfig."""
    text = str(value)
    is_number = text.isascii() and text.isdecimal() and not isinstance(value, bool)
    if not is_number or not least <= int(text) <= most:
        raise BadConfig(f"{key}: {text[:40]!r} is not a whole number from {least} to {most}")
    return int(text)


def seconds(
    settings: Mapping[str, Any], key: str, default: float, least: float = 0.01, most: float = 3600
) -> float:
    """Return the seconds that a setting says, within bounds. Raises BadConfig."""
    value = settings.get(key, default)
    is_strange = isinstance(value, bool) or (isinstance(value, str) and not set(value) <= _DIGITS)
    try:
        length_s = float("" if is_strange else value)
    except (TypeError, ValueError):
        raise BadConfig(f"{key}: {value!r} is not a number of seconds") from None
    if not least <= length_s <= most:
        raise BadConfig(f"{key}: {length_s} is not between {least} and {most} seconds")
    return length_s


def flag(value: object, key: str) -> bool:
    """Return true or false, however it is spelt. Raises BadConfig."""
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("1", "true", "yes"):
        return True
    if str(value).lower() in ("0", "false", "no", ""):
        return False
    raise BadConfig(f"{key}: {value!r} is not true or false")


def choice(value: object, key: str, choices: Sequence[str]) -> str:
    """Return one of a few words. Raises BadConfig."""
    if value not in choices:
        raise BadConfig(f"{key}: {value!r} is not one of {', '.join(choices)}")
    return str(value)
