"""What applications have to say to all: passed on like rumours, delivered once.

A note rides with the gossip until it was sent as often as a rumour would be. Whoever hears it
for the first time delivers it and passes it on. There is no repair: a member that was cut off,
or that joins later, never hears it. Whoever needs more than that needs a log.

Source: SWIM (2002), section 4.1, for the dissemination; the rest is our own.
"""

from __future__ import annotations

from gossip.messages import Note
from gossip.protocol.effects import Deliver, Effect
from gossip.protocol.membership import Membership

SEEN_MAX = 8192
"""Notes remembered so that they are delivered once: eight times what one queue can hold."""


class Notes:
    """Begins notes, and tells the new ones from repetitions."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._seen: dict[tuple[str, int], None] = {}

    def write(self, payload: bytes) -> None:
        """Begin a note of our own. We do not hear it ourselves."""
        number = int(self._membership.rng.random() * 2**53)
        self._is_new(self._membership.name, number)
        self._membership.queue.put(Note(self._membership.name, number, payload))

    def hear(self, note: Note) -> list[Effect]:
        """Deliver a note and pass it on, unless we did so before."""
        if not self._is_new(note.origin, note.number):
            return []
        self._membership.counters["notes_heard"] += 1
        self._membership.queue.put(note)
        return [Deliver(note.origin, note.payload)]

    def _is_new(self, origin: str, number: int) -> bool:
        if (origin, number) in self._seen:
            return False
        self._seen[origin, number] = None
        if len(self._seen) > SEEN_MAX:
            del self._seen[next(iter(self._seen))]
        return True
