"""Two checks of one document's history that need no model, and an oracle that tries all orders.

By version order: trusts the store's version numbers, and compares them with real time.
By value zones: trusts only that every write wrote a value of its own (Gibbons and Korach,
Testing Shared Memories, 1997). The oracle (Wing and Gong, 1993) tries all orders; the two checks
are tested against it.
"""

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

INFINITE = float("inf")


@dataclass(frozen=True, slots=True)
class Event:
    """A read or a write of one register. `version` orders writes; a read has the one it saw."""

    is_write: bool
    start: float
    end: float
    version: int


def by_version(events: Sequence[Event]) -> str | None:
    """Return what is wrong, if the versions contradict real time. O(n log n)."""
    begun: dict[int, float] = {event.version: event.start for event in events if event.is_write}
    earliest: dict[int, float] = {}
    floor = -INFINITE
    for version in sorted(begun):
        # A version cannot exist before every write up to it has begun.
        floor = max(floor, begun[version])
        earliest[version] = floor
    moments = []
    for index, event in enumerate(events):
        if event.end < earliest.get(event.version, -INFINITE):
            return f"version {event.version} was seen before it was written"
        moments.append((event.start, 0, index))
        if event.end < INFINITE:
            moments.append((event.end, 1, index))
    highest = -1
    for _, ends, index in sorted(moments):
        event = events[index]
        if ends:
            highest = max(highest, event.version)
        elif event.version < highest + event.is_write:
            return f"version {event.version} came after {highest} had been answered"
    return None


def by_zones(events: Sequence[Event]) -> str | None:
    """Return what is wrong, if no order of the values fits real time. O(n log n)."""
    clusters: dict[int, list[Event]] = {}
    for event in events:
        clusters.setdefault(event.version, []).append(event)
    forward, backward = [], []
    for version, cluster in clusters.items():
        write = next((event for event in cluster if event.is_write), None)
        begun = write.start if write else -INFINITE
        if any(event.end < begun for event in cluster):
            return f"value {version} was read before it was written"
        first_end = min(event.end for event in cluster)
        if write is None:
            first_end = -INFINITE  # The initial value was there before everything.
        last_start = max(event.start for event in cluster)
        zone = (min(first_end, last_start), max(first_end, last_start))
        (forward if first_end < last_start else backward).append(zone)
    forward.sort()
    for before, after in itertools.pairwise(forward):
        if after[0] < before[1]:
            return "two values were each current while the other was"
    starts = [zone[0] for zone in forward]
    for low, high in backward:
        at = bisect_right(starts, low) - 1
        if at >= 0 and starts[at] < low and high < forward[at][1]:
            return "a value came and went while another was current throughout"
    return None


def by_trying(events: Sequence[Event]) -> bool:
    """Say whether some order of the events fits: every read sees the write before it.

    The initial value has version -1. Writes without an end may be left out. For few events only.
    """
    everything = tuple(events)

    @cache
    def fits(done: frozenset[int], current: int) -> bool:
        rest = [i for i in range(len(everything)) if i not in done]
        if all(everything[i].end == INFINITE and everything[i].is_write for i in rest):
            return True
        bound = min(everything[i].end for i in rest)
        for i in rest:
            event = everything[i]
            if event.start > bound:
                continue
            if event.is_write and fits(done | {i}, event.version):
                return True
            if not event.is_write and event.version == current and fits(done | {i}, current):
                return True
        return False

    return fits(frozenset(), -1)
