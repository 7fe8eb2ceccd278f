"""A flight recorder: the last steps of one machine, bounded in number and in bytes.

Steps that change roles (a term, a link, the group, an alarm) are kept apart from those of requests,
so that no load can push out the take-over before it. A PUT is a dozen steps on three nodes.

Routine steps are kept as the objects themselves, which costs a type lookup and two appends for
each; their briefs are taken when a trace is read. The disadvantage is that their memory is not
reused at once. So the recorder always keeps the last few routine steps, and at most LAST more in
each tick: all steps under little load, an unbroken part of them under heavy load. Drivers count the
bytes of incoming bodies (`carried`), and each tick drops the steps before the last BYTES_MAX.
"""

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from heapq import merge
from operator import itemgetter
from typing import Any, NamedTuple

from docstore.runtime.trace.brief import OCCASION, REPEATED, ROUTINE, TURN, Brief, Shape, Table

STEPS_MAX = 1_024
STEPS_A_TICK = 32
LAST = 32
"""Routine steps recorded per tick at most, and kept at least."""
BYTES_MAX = 2 << 20
"""Bytes of bodies that each of the two rings of a machine may hold; a node has three machines."""
ITEM_BYTES = 200
"""Bytes counted for each item of a kept step of rank TURN."""

_numbers = itertools.count(1)
"""Numbers of steps: their order over all machines of a process."""
_number = itemgetter(0)

Kept = tuple[str, Brief]
"""(sender or receiver of a message, "" for none; brief of the event or effect)."""

_Entry = tuple[int, float, Any, Sequence[Any], int, int]
"""(number, time, event, effects, ...) of a step."""


class Step(NamedTuple):
    """One step of a machine.

    at: time on the machine's clock. left_out: number of routine steps dropped just before it.
    """

    number: int
    at: float
    event: Kept
    effects: Sequence[Kept]
    left_out: int = 0


class Recorder:
    """The recorded steps of one machine."""

    def __init__(
        self,
        table: Table,
        *,
        steps_max: int = STEPS_MAX,
        bytes_max: int = BYTES_MAX,
        steps_a_tick: int = STEPS_A_TICK,
        briefly: bool = False,
    ) -> None:
        """briefly: keep briefs of routine steps, too: slower, but no body stays in memory."""
        self.carried = 0
        """Bytes of bodies that have come in so far; drivers add to it."""
        self._table = table
        self._ranks = {each: shape.rank for each, shape in table.items() if shape is not None}
        self._bytes_max = bytes_max
        self._briefly = briefly
        self._steps_a_tick = self._room = steps_a_tick
        self._noted = 0
        self._routine: deque[_Entry] = deque(maxlen=steps_max)
        self._last: deque[_Entry] = deque(maxlen=LAST)
        """Last routine steps. In this ring and in `_routine`, an entry ends with `carried` and the
        count of routine steps at its time."""
        self._turns: deque[_Entry] = deque()
        """Steps that change roles. An entry ends with the step's size, and 0."""
        self._turns_max = steps_max
        self._turns_size = 0
        self._repeated: dict[tuple[str, str, str], Brief] = {}
        """(direction, node, kind) -> the last brief of that kind."""

    def note(self, at: float, event: Any, effects: Sequence[Any]) -> None:
        """Keep a step, unless it is an occasion without effects."""
        rank = self._ranks.get(type(event))
        if rank is None:
            rank = self._ranks[type(event.message)]
        if rank == OCCASION:
            if effects:
                rank = self._shape(effects[0]).rank if len(effects) == 1 else ROUTINE
            if rank == OCCASION:
                return
        if rank > ROUTINE or self._briefly:
            self.consider(at, event, effects)
        else:
            self._keep(at, event, effects)

    def _keep(self, at: float, event: Any, effects: Sequence[Any]) -> None:
        self._noted = noted = self._noted + 1
        entry = (next(_numbers), at, event, effects, self.carried, noted)
        self._last.append(entry)
        if self._room:
            self._room -= 1
            self._routine.append(entry)

    def consider(self, at: float, event: Any, effects: Sequence[Any]) -> None:
        """Keep a step by the highest rank of its event and effects."""
        said = self._brief(event)
        rank = self._rank("from", event, said)
        asked = []
        for effect in effects:
            does = self._brief(effect)
            worth = self._rank("to", effect, does)
            if worth != OCCASION:
                asked.append(does)
            rank = max(rank, worth)
        if rank == TURN:
            self._keep_turn(at, said, asked)
        elif rank != OCCASION:
            self._keep(at, said, asked)

    def _keep_turn(self, at: float, said: Kept, asked: Sequence[Kept]) -> None:
        size = ITEM_BYTES * sum(1 + len(brief[2]) for _, brief in (said, *asked))
        self._turns.append((next(_numbers), at, said, asked, size, 0))
        self._turns_size += size
        while self._turns_size > self._bytes_max or len(self._turns) > self._turns_max:
            self._turns_size -= self._turns.popleft()[4]

    def trim(self) -> None:
        """Drop the oldest steps beyond the limit of bytes. Called at each tick."""
        self._room = self._steps_a_tick
        least = self.carried - self._bytes_max
        for ring in (self._routine, self._last):
            while ring and ring[0][4] < least:
                ring.popleft()

    def steps(self) -> Iterator[Step]:
        """Yield the kept steps, the oldest first."""
        latest = noted_before = 0
        for entry in merge(self._turns, self._routine, self._last, key=_number):
            number, at, event, effects, _, noted = entry
            if number == latest:
                continue  # The step is in both rings.
            latest, left_out = number, 0
            if noted:
                left_out = noted - noted_before - 1 if noted_before else 0
                noted_before = noted
            asked = [self._brief(each) for each in effects]
            yield Step(number, at, self._brief(event), asked, left_out)

    def _rank(self, direction: str, thing: Any, said: Kept) -> int:
        """Return the rank of an object; OCCASION for a repeated object like the last one."""
        rank = self._shape(thing).rank
        if rank != REPEATED:
            return rank
        node, brief = said
        key = (direction, node, brief[0].name)
        has_words = brief[0].facts or brief[0].items
        if not has_words or self._repeated.get(key) == brief:
            return OCCASION
        self._repeated[key] = brief
        return ROUTINE

    def _brief(self, thing: Any) -> Kept:
        """Return the brief of an event or effect, unless it is one already."""
        if type(thing) is tuple:
            return thing
        shape = self._shape(thing)
        if self._table[type(thing)] is not None:
            return "", shape.take(thing)
        node = thing.sender if hasattr(thing, "sender") else thing.to
        return node, shape.take(thing.message)

    def _shape(self, thing: Any) -> Shape:
        shape = self._table[type(thing)] or self._table[type(thing.message)]
        assert shape is not None
        return shape
