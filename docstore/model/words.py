"""Numbers in words, and questions about misspelt words, for people."""

from collections.abc import Iterable


def count(number: int, what: str) -> str:
    """Return a number of things in words: `1 slot`, `1,024 slots`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def nearest(typed: str, known: Iterable[str]) -> str:
    """Return `did you mean ...? ` with the nearest known word; "" if none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - Only a mistake needs it.

    found = get_close_matches(typed, list(known), n=1)
    return f"did you mean {found[0]}? " if found else ""
