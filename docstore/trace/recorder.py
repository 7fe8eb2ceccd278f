"""A flight recorder: the last steps of one machine, bounded in number and in bytes.

Steps in which something turns (a reign, a link, the group, an alarm) are kept apart from those of
requests, so that no load, however great, pushes the take-over out that came before it.

A PUT is a dozen steps on three nodes, so a step of the routine costs a look at its type and an
append: its very event and effects are kept, and made brief when somebody asks. Even to add up what
they hold would cost more than all of that. Drivers say instead how many bytes come in where they
know it anyway (`carried`), and each tick lets those steps go that came before the last BYTES_MAX.
"""

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from heapq import merge
from operator import itemgetter
from typing import Any, NamedTuple

from docstore.trace.brief import OCCASION, PULSE, ROUTINE, TURN, Brief, Shape, Table

STEPS_MAX = 1_024
BYTES_MAX = 2 << 20
"""Of the bodies in each of the two rings of a machine; and a node has three machines."""
ITEM_BYTES = 200
"""Of a turn that speaks of many, for each of them."""

_numbers = itertools.count(1)
"""Of steps, through all machines of a process: their order."""
_number = itemgetter(0)

Kept = tuple[str, Brief]
"""(the node that it came from or goes to, "" for none; what it says)."""


class Step(NamedTuple):
    """One step of a machine. at: on its clock."""

    number: int
    at: float
    event: Kept
    effects: Sequence[Kept]


class Recorder:
    """Keeps what a driver notes, step by step."""

    def __init__(
        self, table: Table, *, steps_max: int = STEPS_MAX, bytes_max: int = BYTES_MAX
    ) -> None:
        self.carried = 0
        """Bytes of bodies that have come in, ever; for drivers to add to."""
        self._table = table
        self._ranks = {each: shape.rank for each, shape in table.items() if shape is not None}
        self._bytes_max = bytes_max
        self._routine: deque[tuple[int, float, Any, Sequence[Any], int]] = deque(maxlen=steps_max)
        """The last number is `carried` after the step."""
        self._turns: deque[tuple[int, float, Kept, Sequence[Kept], int]] = deque()
        """The last number is the step's own size."""
        self._turns_max = steps_max
        self._turns_size = 0
        self._pulses: dict[tuple[str, str, str], Brief] = {}
        """(direction, node, kind) -> what was said the last time, of what is said repeatedly."""

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
        if rank > ROUTINE:
            self.consider(at, event, effects)
        else:
            self._routine.append((next(_numbers), at, event, effects, self.carried))

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
            self._routine.append((next(_numbers), at, said, asked, self.carried))

    def _keep_turn(self, at: float, said: Kept, asked: Sequence[Kept]) -> None:
        size = ITEM_BYTES * sum(1 + len(brief[2]) for _, brief in (said, *asked))
        self._turns.append((next(_numbers), at, said, asked, size))
        self._turns_size += size
        while self._turns_size > self._bytes_max or len(self._turns) > self._turns_max:
            self._turns_size -= self._turns.popleft()[4]

    def trim(self) -> None:
        """Let steps go that hold more than there is room for; called at each tick."""
        routine, least = self._routine, self.carried - self._bytes_max
        while routine and routine[0][4] < least:
            routine.popleft()

    def steps(self) -> Iterator[Step]:
        """Yield what is kept, the oldest first."""
        for step in merge(self._turns, self._routine, key=_number):
            number, at, event, effects, _ = step
            yield Step(number, at, self._brief(event), [self._brief(each) for each in effects])

    def _rank(self, direction: str, thing: Any, said: Kept) -> int:
        """Return what a thing is worth: a pulse without news, such as a tick, is an occasion."""
        rank = self._shape(thing).rank
        if rank != PULSE:
            return rank
        node, brief = said
        key = (direction, node, brief[0].name)
        has_words = brief[0].facts or brief[0].items
        if not has_words or self._pulses.get(key) == brief:
            return OCCASION
        self._pulses[key] = brief
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
