"""Ranges of values that a condition needs: the interface between conditions and indexes. Pure.

A condition has, for some members, ranges outside which it cannot be true. An index finds the
documents inside; the condition then checks each of them, so a range may hold too much and must
never hold too little. A key names a member: its steps, with EACH for the elements of an array, or
(EACH, name) for a column that the store sets.

Values are those of an order (`ordering.py`): a rank, and a value within it.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

TEXT_CHARACTERS = 128
"""Code points of a text that count in an order."""
MISSING, FALSE, TRUE, NUMBER_RANK, TEXT_RANK, WHOLE_RANK = range(6)
EACH = None
"""The step of a key into the elements of an array."""
RANGES_MAX = 64
"""Maximum ranges of one member; more are joined."""

Key = tuple[str | int | None, ...]


class Range(NamedTuple):
    """Values of one rank from `low` to `high`, both included; None for no bound."""

    rank: int
    low: Any = None
    high: Any = None

    @property
    def is_point(self) -> bool:
        return self.low is not None and self.low == self.high


Ranges = tuple[Range, ...]
"""Ranges without overlap, in order."""
Needs = Mapping[Key, Ranges]

NULL: Ranges = (Range(MISSING, 0, 0),)
PRESENT: Ranges = tuple(
    Range(rank, *(() if rank in (NUMBER_RANK, TEXT_RANK) else (0, 0)))
    for rank in (FALSE, TRUE, NUMBER_RANK, TEXT_RANK, WHOLE_RANK)
)


def of_comparison(sign: str, literal: str | float | bool) -> Ranges:
    if isinstance(literal, bool):
        ranks = (TRUE if literal else FALSE,) if sign == "=" else (FALSE, TRUE)
        return tuple(Range(rank, 0, 0) for rank in ranks)
    rank, value = NUMBER_RANK, literal
    if isinstance(literal, str):
        rank, value = TEXT_RANK, literal[:TEXT_CHARACTERS]
    low = value if sign in ("=", ">", ">=") else None
    high = value if sign in ("=", "<", "<=") else None
    return (Range(rank, low, high),)


def of_prefix(prefix: str) -> Ranges:
    prefix = prefix[:TEXT_CHARACTERS]
    return (Range(TEXT_RANK, prefix, text_behind(prefix) or None),)


def text_behind(prefix: str) -> str:
    """Return the first text after all texts with a prefix, "" if there is none."""
    for at in range(len(prefix) - 1, -1, -1):
        if prefix[at] < "\U0010ffff":
            following = ord(prefix[at]) + 1
            # Surrogates are not valid characters.
            return prefix[:at] + chr(0xE000 if 0xD800 <= following < 0xE000 else following)
    return ""


def united(*several: Iterable[Range]) -> Ranges:
    """Return the ranges that hold what any of the given ranges holds."""
    found: list[Range] = []
    for each in sorted((one for some in several for one in some), key=_low):
        last = found[-1] if found else None
        if last is None or last.rank != each.rank or _is_below(last.high, each.low):
            found.append(each)
        elif last.high is not None and (each.high is None or each.high > last.high):
            found[-1] = last._replace(high=each.high)
    if len(found) > RANGES_MAX:
        ranks = sorted({each.rank for each in found})
        found = [_hull([each for each in found if each.rank == rank]) for rank in ranks]
    return tuple(found)


def common(some: Ranges, others: Ranges) -> Ranges:
    """Return the ranges that hold what both of the given ranges hold."""
    found = []
    for pair in ((one, other) for one in some for other in others if one.rank == other.rank):
        low = max((each.low for each in pair if each.low is not None), default=None)
        high = min((each.high for each in pair if each.high is not None), default=None)
        if not _is_below(high, low):
            found.append(Range(pair[0].rank, low, high))
    return united(found)


def of_all(parts: Sequence[Needs]) -> Needs:
    """Return the needs of conditions that must all be true."""
    found: dict[Key, Ranges] = {}
    for part in parts:
        for key, ranges in part.items():
            before = found.get(key)
            # Two elements of an array may fulfil two conditions, so their ranges have no meaning
            # together: either suffices.
            if before is None:
                found[key] = ranges
            elif EACH not in key[1:]:
                found[key] = common(before, ranges)
    return found


def of_any(parts: Sequence[Needs]) -> Needs:
    """Return the needs of conditions of which one must be true."""
    keys = reduce(lambda one, other: one & other, (set(part) for part in parts))
    return {key: united(*(part[key] for part in parts)) for key in sorted(keys, key=repr)}


def _low(one: Range) -> tuple[int, bool, Any]:
    return one.rank, one.low is not None, 0 if one.low is None else one.low


def _is_below(high: Any, low: Any) -> bool:
    return high is not None and low is not None and high < low


def _hull(some: Sequence[Range]) -> Range:
    last = max(some, key=lambda each: (each.high is None, 0 if each.high is None else each.high))
    return some[0]._replace(high=last.high)
