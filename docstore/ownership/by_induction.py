"""Policy by induction: a process leads the roles of a partition while it can prove its assignment.

Based on "Non-Exclusive Leader Induction in Highly Available Systems" (NELI, Koutanov). Its names: a
ledger assigns each of M *partitions* to one of the processes P. Role number j belongs to partition
j mod M. A process keeps a vector V of times, one for each partition, and leads the roles of
partition i for as long as V[i] is at most T old. Roles are stored nowhere, so a role begins and
ends without a message. The fence is the token of a tenure: it grows from one holder to the next,
and a guarded document rejects a smaller one (header `Fence`).

Two repairs of the paper, both of its section on exclusive roles:

1. Receipt of a message proves nothing: a process that was dropped may still get messages
   from others. V[i] is the time at which we *sent* the last request whose answer confirmed i for
   us (`proof.py`). The plain form of the paper (`received`) is here for non-exclusive roles only.
2. So the paper's clocks that agree within e are not needed, only clocks with right *rates*:
   T (1 + rho) < S (1 - rho). Where a ledger gives partitions away before S is over (Kafka does),
   S protects nothing, and the new holder waits for a grace G >= T (1 + rho) / (1 - rho) first.

Non-exclusive roles want no gap instead: T / (1 + rho) >= S / (1 - rho) + H + the time that a
successor needs, so the old holder leads until the new one does.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from docstore.ownership.proof import RATE_ERROR, Proof, check_disjoint

SUCCESSION_S = 0.5
"""Seconds for an update of the ledger and the successor's first confirmation."""


class Mode(StrEnum):
    """Whether a role has at most one leader at any moment, or rather two for a while than none."""

    EXCLUSIVE = "exclusive"
    NON_EXCLUSIVE = "nonExclusive"


# Roles and partitions


def partition_of(role: int, partitions: int) -> int:
    """Return the partition that carries a role. Raises ValueError for a negative role."""
    if role < 0:
        raise ValueError(f"role must be a number from 0; got {role}")
    return role % partitions


def hash_slot(key: str, slots: int) -> int:
    """Return the hash slot of a key: the role of the key where there are many keys."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % slots


# Times


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """The times of a group; raises ValueError if they do not fit each other.

    session_s: S, silence after which a member is removed. heartbeat_s: H, interval of pulses.
    window_s: T, validity of a proof. grace_s: G, wait of a new holder before it leads.
    """

    mode: Mode
    session_s: float
    heartbeat_s: float
    window_s: float
    grace_s: float = 0.0
    rate_error: float = RATE_ERROR
    keeps_sessions: bool = True
    """Whether the ledger takes no partition away before its holder was silent for S."""

    def __post_init__(self) -> None:
        slower, faster = 1.0 - self.rate_error, 1.0 + self.rate_error
        if not 0.0 < self.heartbeat_s < self.session_s:
            raise ValueError("a member must send its heartbeat more than once in a session")
        if self.mode is Mode.EXCLUSIVE:
            check_disjoint(self.window_s, self.session_s, self.rate_error)
            needed_s = 0.0 if self.keeps_sessions else self.window_s * faster / slower
            if self.grace_s < needed_s:
                raise ValueError(f"the grace of this ledger must be at least {needed_s:g} s")
            return
        least_s = faster * (self.session_s / slower + self.heartbeat_s + SUCCESSION_S)
        if self.window_s < least_s:
            raise ValueError(
                f"with a proof valid for {self.window_s:g} s, less than {least_s:g} s, no"
                " process leads for a while after a change of holders: choose a longer window"
            )

    @classmethod
    def of(cls, mode: Mode, session_s: float = 6.0) -> "Windows":
        """Return the usual times for a session: two pulses may be lost.

        For non-exclusive roles the window is three sessions: a change of coordinator grants S anew.
        """
        is_exclusive = mode is Mode.EXCLUSIVE
        return cls(
            mode=mode,
            session_s=session_s,
            heartbeat_s=min(session_s / 8.0, 1.0),
            window_s=session_s / 2.0 if is_exclusive else session_s * 3.0,
        )


# Events


class Acquired(NamedTuple):
    """This process leads the roles of a partition from now on, or again under the same token."""

    partition: int
    token: int


class Revoked(NamedTuple):
    """This process no longer leads the roles; another one gets them once it has released them."""

    partition: int
    token: int
    proof: Proof

    def protected(self, now: float) -> bool:
        """Say whether no other process leads the roles yet, so that this one may clean up."""
        return self.proof.is_valid(now)


class Fenced(NamedTuple):
    """This process no longer leads the roles; another one may. why: silent, fenced or left."""

    partition: int
    token: int
    why: str


Event = Acquired | Revoked | Fenced


# Leadership


@dataclass(slots=True)
class _Entry:
    """One element of V."""

    token: int
    since: float
    """Time at which the first confirmed request was sent: the grace counts from it."""
    proof: Proof
    is_told: bool = field(default=False)


class Induced:
    """The vector V of one process. Any thread may call `leads` and its variants."""

    def __init__(self, partitions: int, windows: Windows) -> None:
        """partitions: M, which must not change while the group has members."""
        assert partitions >= 1
        self.partitions = partitions
        self.windows = windows
        self._entries: dict[int, _Entry] = {}
        self._revoking: dict[int, _Entry] = {}

    def leads(self, role: int, now: float) -> bool:
        """Say whether this process leads a role; `now` must be read for this very question."""
        return self.leads_partition(partition_of(role, self.partitions), now)

    def leads_key(self, key: str, slots: int, now: float) -> bool:
        return self.leads(hash_slot(key, slots), now)

    def leads_partition(self, partition: int, now: float) -> bool:
        entry = self._entries.get(partition)
        return entry is not None and self._leads(entry, now)

    def token(self, role: int) -> int | None:
        """Return the token of the tenure that includes a role; None without one."""
        entry = self._entries.get(partition_of(role, self.partitions))
        return None if entry is None else entry.token

    def confirmed(self, partition: int, token: int, stamp: float, now: float) -> list[Event]:
        """Confirm a partition: the ledger said that it belonged to this process after `stamp`.

        Another token is another tenure: its grace begins anew.
        """
        assert 0 <= partition < self.partitions
        revoking = self._revoking.get(partition)
        if revoking is not None:
            revoking.proof.confirm(stamp)  # Extends `protected`; the partition is not led again.
            return []
        entry = self._entries.get(partition)
        events: list[Event] = []
        if entry is not None and entry.token != token:
            events += self._fenced(partition, "fenced")
            entry = None
        if entry is None:
            entry = _Entry(token, stamp, Proof(self.windows.window_s))
            self._entries[partition] = entry
        events += self._lapse(partition, entry, now)
        entry.proof.confirm(stamp)
        events += self._acquire(partition, entry, now)
        return events

    def received(self, partition: int, now: float) -> list[Event]:
        """Count a received message of a partition as proof of assignment: the paper's plain form.

        Use it only where two leaders do no harm: see the head of this file.
        """
        assert self.windows.mode is Mode.NON_EXCLUSIVE
        return self.confirmed(partition, 0, now, now)

    def revoked(self, partition: int) -> list[Event]:
        """Stop leading a partition. It stays assigned to this process until it is released.

        Returns no event if there was no Acquired for the partition: then no work has to finish.
        """
        entry = self._entries.pop(partition, None)
        if entry is None:
            return []
        if not entry.is_told:
            entry.proof.drop()
            return []
        kept = Proof(self.windows.window_s, entry.proof.until - self.windows.window_s)
        entry.proof.drop()
        self._revoking[partition] = _Entry(entry.token, entry.since, kept)
        return [Revoked(partition, entry.token, kept)]

    def released(self, partition: int) -> None:
        """Release a partition: the callbacks for its end have finished."""
        entry = self._revoking.pop(partition, None)
        if entry is not None:
            entry.proof.drop()

    def dropped(self, why: str = "fenced") -> list[Event]:
        """Stop leading; return an event for each partition that was led."""
        for partition in tuple(self._revoking):
            self.released(partition)
        return [event for each in tuple(self._entries) for event in self._fenced(each, why)]

    def drop_all(self) -> None:
        """Drop all proofs: this process is a forked copy of another one."""
        self.dropped()

    def lapsed(self, now: float) -> list[Event]:
        """Return the events of expired proofs and ended graces."""
        events: list[Event] = []
        for partition, entry in self._entries.items():
            events += self._lapse(partition, entry, now)
            events += self._acquire(partition, entry, now)
        return events

    def next_at(self, now: float) -> float:
        """Return the next time at which `lapsed` may return events."""
        ends = [
            math.nextafter(entry.proof.until, math.inf)  # Valid up to and including `until`.
            if entry.is_told
            else entry.since + self.windows.grace_s
            for entry in self._entries.values()
        ]
        return min((at for at in ends if at > now), default=math.inf)

    @property
    def held(self) -> dict[int, int]:
        """Return partition -> token of the assigned partitions, whether a proof is valid or not."""
        return {partition: entry.token for partition, entry in self._entries.items()}

    def _leads(self, entry: _Entry, now: float) -> bool:
        return now >= entry.since + self.windows.grace_s and entry.proof.is_valid(now)

    def _acquire(self, partition: int, entry: _Entry, now: float) -> Iterator[Event]:
        if not entry.is_told and self._leads(entry, now):
            entry.is_told = True
            yield Acquired(partition, entry.token)

    def _lapse(self, partition: int, entry: _Entry, now: float) -> Iterator[Event]:
        if entry.is_told and not entry.proof.is_valid(now):
            entry.is_told = False
            yield Fenced(partition, entry.token, "silent")

    def _fenced(self, partition: int, why: str) -> Iterator[Event]:
        entry = self._entries.pop(partition)
        entry.proof.drop()
        if entry.is_told:
            yield Fenced(partition, entry.token, why)
