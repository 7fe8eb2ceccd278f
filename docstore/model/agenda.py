"""Agenda of a document: its timers, and its effects that are not settled yet. Pure.

The agenda is in the newest row of a document, as fences are, so it is as durable as the version
that made it. Every later row repeats it, also tombstones (without timers), until it is done:

    TI1  a due time takes effect once: the version that it makes has the next one, or none
    EF1  an effect stays in the agenda until an update settles it, which follows its delivery
    EF2  the number of an effect is greater than those of all earlier versions of its document

No client can change an agenda, because it is no part of the state.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgpack

from docstore.errors import Unavailable
from docstore.model.document import Row

FIRE: Final = "timer"
"""Media of the operation that fires a timer; its body is the timer."""
SETTLE: Final = "settle"
"""Media of the operation that removes delivered effects; its body is the number of the last one."""

TIMERS_MAX = 16
EFFECTS_MAX, EFFECT_BYTES_MAX = 64, 64 << 10
"""Greatest number and total size of the effects of a document that are not settled."""
NAME_BYTES_MAX, TARGET_BYTES_MAX = 64, 4096
PERIOD_US_MIN = 100_000
FUTURE_US_MAX = 8_836_000_000_000_000
"""About the year 2250, in microseconds since 1970."""
CATCH_UP_MAX = 1_000
"""Most due times of a periodic timer that are made up for; older ones are skipped."""

_WITH_AGENDA = b"\x9c"
"""First byte of an operation's identity with an agenda: an array of twelve (msgpack)."""
_PLACE = 11


class EffectsWait(Unavailable):
    """The document has as many effects as it may have: some must be delivered first."""

    code = "effects-waiting"


class Timer(NamedTuple):
    """A timer of a document. due_us: since 1970. every_us: its period, 0 for once."""

    name: str
    due_us: int
    every_us: int = 0


class Effect(NamedTuple):
    """An effect of a version of a document.

    kind: method of an update, RECORD or WEBHOOK. target: link, topic or URL. body: JSON.
    """

    number: int
    kind: str
    target: str
    body: bytes


RECORD, WEBHOOK = "RECORD", "WEBHOOK"


class Agenda(NamedTuple):
    """Timers by name, and effects in their order."""

    timers: tuple[Timer, ...] = ()
    effects: tuple[Effect, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.timers or self.effects)

    @property
    def size(self) -> int:
        """Return about how many bytes the effects take in a row."""
        return sum(len(each.body) + len(each.target) for each in self.effects)


NOTHING = Agenda()


def has_agenda(row: Row) -> bool:
    return row.operation[:1] == _WITH_AGENDA


def agenda_of(row: Row | None) -> Agenda:
    """Return the agenda of a document. row: its newest one."""
    if row is None or not has_agenda(row):
        return NOTHING
    timers, effects = msgpack.unpackb(row.operation)[_PLACE]
    return Agenda(tuple(Timer(*each) for each in timers), tuple(Effect(*each) for each in effects))


def settled(agenda: Agenda, until: int) -> Agenda:
    """Return an agenda without the effects up to a number."""
    return agenda._replace(effects=tuple(each for each in agenda.effects if each.number > until))


def following(timer: Timer, now_us: int) -> Timer | None:
    """Return a timer after it has fired; None if it fires once."""
    if not timer.every_us:
        return None
    missed = (now_us - timer.due_us) // timer.every_us
    skipped = max(0, missed - CATCH_UP_MAX)
    return timer._replace(due_us=timer.due_us + (1 + skipped) * timer.every_us)


class Plan:
    """The agenda of a document while a handler makes its next version."""

    def __init__(self, before: Agenda = NOTHING, version: int = 0) -> None:
        """version: number of the next version."""
        self.timers = {each.name: each for each in before.timers}
        self.added: list[Effect] = []
        self._before = before
        self._version = version

    def fired(self, timer: Timer, now_us: int) -> None:
        """Replace a timer by the next one, if it is periodic."""
        del self.timers[timer.name]
        if (later := following(timer, now_us)) is not None:
            self.timers[timer.name] = later

    def start(self, timer: Timer) -> None:
        """Start a timer, or start it anew. Raises ValueError for a malformed one."""
        name, due_us, every_us = timer
        _check_text("name", name, NAME_BYTES_MAX)
        if every_us and not PERIOD_US_MIN <= every_us <= FUTURE_US_MAX:
            raise ValueError(f"every_s must be {PERIOD_US_MIN / 1e6} or more; got {every_us / 1e6}")
        if not 0 <= due_us <= FUTURE_US_MAX:
            raise ValueError(f"a timer must be due before the year 2250; got {due_us}")
        if name not in self.timers and len(self.timers) >= TIMERS_MAX:
            raise ValueError(f"a document must have at most {TIMERS_MAX} timers")
        self.timers[name] = timer

    def add(self, kind: str, target: str, body: bytes) -> None:
        """Add an effect. Raises ValueError for a malformed one, or more than there may ever be."""
        _check_text("topic or URL", target, TARGET_BYTES_MAX)
        number = self._version * EFFECTS_MAX + len(self.added)
        self.added.append(Effect(number, kind, target, body))
        size = Agenda((), tuple(self.added)).size
        if len(self.added) > EFFECTS_MAX or size > EFFECT_BYTES_MAX:
            raise ValueError(
                f"an update must have at most {EFFECTS_MAX} effects of {EFFECT_BYTES_MAX} bytes"
            )

    def result(self) -> Agenda:
        """Return the agenda of the next version. Raises EffectsWait."""
        if not self.added and tuple(self.timers.values()) == self._before.timers:
            return self._before
        after = Agenda(tuple(self.timers.values()), (*self._before.effects, *self.added))
        if self.added and (len(after.effects) > EFFECTS_MAX or after.size > EFFECT_BYTES_MAX):
            raise EffectsWait(
                f"{len(after.effects)} effects of the document, {after.size} bytes, would wait for"
                f" delivery, and it may have {EFFECTS_MAX} of {EFFECT_BYTES_MAX} bytes: retry later"
            )
        return after


def _check_text(what: str, text: Any, bytes_max: int) -> None:
    if not isinstance(text, str) or not 0 < len(text.encode()) <= bytes_max:
        raise ValueError(f"{what} must be a text of 1 to {bytes_max} bytes; got {text!r}")


def packed_agenda(agenda: Agenda | None) -> Sequence[Any]:
    """Return the agenda as plain values for a row's identity, () for None."""
    return () if agenda is None else tuple(agenda)
