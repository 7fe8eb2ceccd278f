"""The sessions that this member believes. A seal proves that its sender had the key, no more.

An attacker without the key can repeat captured packets, to a member that has just
started and remembers none. So what a packet may do depends on its session, which is the uid of
the process that sealed it:

| session | because                                                  | may                  |
|---------|----------------------------------------------------------|----------------------|
| proven  | it answered the random number of a ping of ours          | everything           |
| vouched | its uid is live in our table                             | everything           |
| unknown | -                                                        | ping, and get an ack |

Vouching is needed: in a large group nearly every datagram of the first minutes comes from a peer
that we have never met. A statement of a present life can still be repeated; statements are
ordered, so a repetition changes nothing.

Source: our own.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

from gossip.member import Address, Change
from gossip.messages import SEQUENCE_MAX, Ack, DatagramMessage, Ping
from gossip.security.admission import Opened, Refused
from gossip.security.replay import SESSIONS_MAX, ReplayWindows

if TYPE_CHECKING:
    from gossip.security.seal import Seal

CHALLENGES_MAX = 1024
_CHALLENGE_INTERVAL_S = 1.0


class SessionAuthenticator:
    """Opens packets, and rejects those that are forged, repeated, or of an unknown session."""

    def __init__(self, seal: Seal, name: str, rng: random.Random) -> None:
        self.counters: Counter[str] = Counter()
        self._seal = seal
        self._name = name
        self._rng = rng
        self._windows = ReplayWindows()
        self._proven: dict[bytes, None] = {}
        self._vouched: dict[str, bytes] = {}
        self._sessions: set[bytes] = set()
        self._challenges: dict[int, bytes] = {}
        self._challenged_at_s: dict[Address, float] = {}

    def open(self, packet: bytes) -> Opened | None:
        """Return the content of a datagram; None if it is forged or repeated."""
        opened = self._seal.open(packet)
        if isinstance(opened, Refused):
            self.counters[opened.value] += 1
            return None
        if not self._windows.is_new(opened.key_id + opened.session, opened.counter):
            self.counters["packets_repeated"] += 1
            return None
        return opened

    def admit(
        self,
        opened: Opened,
        messages: tuple[DatagramMessage, ...],
        sender: Address,
        now: float,
    ) -> tuple[tuple[DatagramMessage, ...], Ping | None]:
        """Return the messages that the session may send, and a ping that would prove it."""
        session = opened.session
        for message in messages:
            if not isinstance(message, Ack):
                continue
            if self._challenges.get(message.sequence) == session:
                del self._challenges[message.sequence]
                self.prove(session)
                self._windows.set_floor(opened.key_id + session, opened.counter)
        if session in self._proven or session in self._sessions:
            return messages, None
        pings = tuple(message for message in messages if isinstance(message, Ping))
        self.counters["messages_of_strangers"] += len(messages) - len(pings)
        return pings, self._challenge(session, pings, sender, now)

    def prove(self, session: bytes) -> None:
        self._proven.pop(session, None)
        self._proven[session] = None
        if len(self._proven) > SESSIONS_MAX:
            del self._proven[next(iter(self._proven))]

    def changed(self, change: Change) -> None:
        """Follow the table: the uids of live members are vouched for."""
        member = change.member
        self._sessions.discard(self._vouched.pop(member.name, b""))
        if member.is_live:
            self._vouched[member.name] = member.uid
            self._sessions.add(member.uid)

    def _challenge(
        self, session: bytes, pings: tuple[Ping, ...], sender: Address, now: float
    ) -> Ping | None:
        asked_at_s = self._challenged_at_s.get(sender)
        is_soon = asked_at_s is not None and now - asked_at_s < _CHALLENGE_INTERVAL_S
        if not pings or is_soon:
            return None
        if len(self._challenged_at_s) >= CHALLENGES_MAX:
            self._challenged_at_s.clear()
            self._challenges.clear()
        self._challenged_at_s[sender] = now
        sequence = int(self._rng.random() * SEQUENCE_MAX)
        self._challenges[sequence] = session
        return Ping(sequence, pings[0].source, self._name)
