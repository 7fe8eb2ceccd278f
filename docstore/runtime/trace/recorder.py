"""A flight recorder: the last steps of one machine, bounded in number and in bytes.

Steps in which something turns (a term, a link, the group, an alarm) are kept apart from those of
requests, so that no load, however great, pushes the take-over out that came before it.

A PUT is a dozen steps on three nodes. Of the routine the very events and effects are kept, and made
brief when somebody asks: a look at a type and two appends. What costs is that their memory is not
used again at once. So the last few steps are always there, and of all others only so many as there
is room for between two ticks: all while there is little to do, and a part, without a hole in it,
under load. Drivers say how many bytes come in where they know it anyway (`carried`), and each tick
lets those steps go that came before the last BYTES_MAX.
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
"""So many of the routine are kept between two ticks; and so many are always there."""
BYTES_MAX = 2 << 20
"""Of the bodies in each of the two rings of a machine; and a node has three machines."""
ITEM_BYTES = 200
"""Of a turn that speaks of many, for each of them."""

_numbers = itertools.count(1)
"""Of steps, through all machines of a process: their order."""
_number = itemgetter(0)

Kept = tuple[str, Brief]
"""(the node that it came from or goes to, "" for none; what it says)."""

_Entry = tuple[int, float, Any, Sequence[Any], int, int]
"""(number, at, event, effects, ...) of a step."""


class Step(NamedTuple):
    """One step of a machine. at: on its clock. left_out: steps of the routine just before it."""

    number: int
    at: float
    event: Kept
    effects: Sequence[Kept]
    left_out: int = 0


class Recorder:
    """Keeps what a driver notes, step by step."""

    def __init__(
        self,
        table: Table,
        *,
        steps_max: int = STEPS_MAX,
        bytes_max: int = BYTES_MAX,
        steps_a_tick: int = STEPS_A_TICK,
        briefly: bool = False,
    ) -> None:
        """briefly: keep briefs of the routine as well. It costs more, and holds no bodies."""
        self.carried = 0
        """Bytes of bodies that have come in, ever; for drivers to add to."""
        self._table = table
        self._ranks = {each: shape.rank for each, shape in table.items() if shape is not None}
        self._bytes_max = bytes_max
        self._briefly = briefly
        self._steps_a_tick = self._room = steps_a_tick
        self._noted = 0
        self._routine: deque[_Entry] = deque(maxlen=steps_max)
        self._last: deque[_Entry] = deque(maxlen=LAST)
        """Both: the last numbers are `carried`, and how many of the routine there were by then."""
        self._turns: deque[_Entry] = deque()
        """The last numbers are the step's own size, and 0."""
        self._turns_max = steps_max
        self._turns_size = 0
        self._repeated: dict[tuple[str, str, str], Brief] = {}
        """(direction, node, kind) -> what was said the last time."""

    def note(self, at: float, event: Any, effects: Sequence[Any]) -> None:
        """Keep a step, unless it says nothing."""
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
        """Keep a step by all that is in it, for as long as that is worth."""
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
        """Let steps go that hold more than there is room for; called at each tick."""
        self._room = self._steps_a_tick
        least = self.carried - self._bytes_max
        for ring in (self._routine, self._last):
            while ring and ring[0][4] < least:
                ring.popleft()

    def steps(self) -> Iterator[Step]:
        """Yield what is kept, the oldest first."""
        latest = noted_before = 0
        for entry in merge(self._turns, self._routine, self._last, key=_number):
            number, at, event, effects, _, noted = entry
            if number == latest:
                continue  # It is one of the last, and there was room for it as well.
            latest, left_out = number, 0
            if noted:
                left_out = noted - noted_before - 1 if noted_before else 0
                noted_before = noted
            asked = [self._brief(each) for each in effects]
            yield Step(number, at, self._brief(event), asked, left_out)

    def _rank(self, direction: str, thing: Any, said: Kept) -> int:
        """Return what a thing is worth: what is repeated without news is an occasion."""
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
        """Return what an event or an effect says, unless that is what it is."""
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
