"""Notes of applications: delivered once, passed on a limited number of times, never piled up."""

import pytest

from gossip.errors import NoteTooLarge
from gossip.messages import Note
from gossip.news import News, NoteHeard
from gossip.protocol.broadcast import NOTES_MAX
from gossip.protocol.effects import Deliver, Send
from gossip.protocol.events import GossipDue, NoteWritten, TimerFired
from gossip.protocol.notes import SEEN_MAX
from tests.gossip.live import Launch, sees, until
from tests.gossip.rig import hear, machine


def test_a_note_is_delivered_once_and_passed_on() -> None:
    swim = machine("a", "b")
    note = Note("a", 7, b"hello")
    assert hear(swim, "a", note) == [Deliver("a", b"hello")]
    assert hear(swim, "b", note) == []
    sent = swim.step(TimerFired(GossipDue()), 1.2)
    assert all(note in effect.messages for effect in sent if isinstance(effect, Send))


def test_our_own_note_does_not_come_back_to_us() -> None:
    swim = machine("a")
    swim.step(NoteWritten(b"mine"), 1.0)
    [note] = [
        message
        for effect in swim.step(TimerFired(GossipDue()), 1.2)
        if isinstance(effect, Send)
        for message in effect.messages[:1]
    ]
    assert isinstance(note, Note)
    assert (note.origin, note.payload) == ("me", b"mine")
    assert hear(swim, "a", note) == []


def test_notes_do_not_pile_up() -> None:
    swim = machine("a")
    for number in range(SEEN_MAX + 10):
        hear(swim, "a", Note("a", number, b""))
    assert len(swim.membership.queue) == NOTES_MAX
    assert hear(swim, "a", Note("a", 0, b"")) == [Deliver("a", b"")]  # Long forgotten.
    assert hear(swim, "a", Note("a", SEEN_MAX + 9, b"")) == []


async def test_a_note_reaches_every_other_application(launch: Launch) -> None:
    first = await launch("a")
    others = [await launch("b", first), await launch("c", first)]
    await until(lambda: all(sees(first, name) for name in "bc") and bool(sees(others[0], "c")))
    heard: list[News] = []
    readers = [agent.events() for agent in others]
    first.broadcast(b"hello")
    for reader in readers:
        async for news in reader:
            if isinstance(news, NoteHeard):
                heard.append(news)
                break
    assert heard == [NoteHeard("a", b"hello")] * 2
    with pytest.raises(NoteTooLarge):
        first.broadcast(bytes(513))
