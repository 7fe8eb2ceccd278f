"""Roles by induction on Kafka: when a member of a consumer group may count as holder.

The ledger of NELI (`by_induction.py`) is Kafka itself: a topic of M partitions, and a consumer
group to which it assigns them. Three of its properties are inconvenient, and each has a rule here.

* *A received record proves nothing*: a fetch carries no generation, so a consumer that was dropped
  still gets records. A commit does carry it, and is refused from a non-member: **a commit that was
  accepted proves that no later generation existed when it had been sent.** (A heartbeat does too,
  but is answered from memory; a commit is answered when it is replicated, so a coordinator that
  was deposed cannot answer it.)
* *A commit proves membership of a generation, not ownership of a partition*, and a client may send
  it again by itself under a generation that it joined meanwhile. So there is an **era**: it ends
  when partitions are revoked, and what was begun in one era proves nothing in another.
* *Partitions are given away before a session is over*: on a rebalance that takes too long, when an
  operator or a client's own watchdog says so, on a newcomer with the same name, and when the group
  is lost. So the session protects nothing, and a new holder waits for a **grace** of one window
  first, always. It also covers a commit without a generation, which an empty group accepts.

The token of a tenure is the offset of an empty record that its holder writes to the partition; it
is used only once a commit that was *sent later* has been accepted. A zombie that writes late gets
a greater offset, but never that commit.

Pure: client/kafka.py feeds it what aiokafka says, and tests/sim/kafka.py what a model says.

Left out: cooperative rebalancing. Each rebalance revokes everything here, so exclusive roles pause.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from docstore.ownership.by_induction import Event, Induced, Mode, Windows
from docstore.ownership.proof import RATE_ERROR


def windows_on_kafka(
    mode: Mode,
    session_s: float = 6.0,
    window_s: float | None = None,
    rate_error: float = RATE_ERROR,
) -> Windows:
    """Return the usual times of a group on Kafka; T may be given, the other times follow.

    Raises ValueError if T does not fit S.
    """
    usual = Windows.of(mode, session_s)
    chosen_s = usual.window_s if window_s is None else window_s
    is_exclusive = mode is Mode.EXCLUSIVE
    grace_s = chosen_s * (1.0 + rate_error) / (1.0 - rate_error) if is_exclusive else 0.0
    return Windows(
        mode=mode,
        session_s=session_s,
        heartbeat_s=min(usual.heartbeat_s, chosen_s / 4.0),
        window_s=chosen_s,
        grace_s=grace_s,
        rate_error=rate_error,
        keeps_sessions=False,
    )


class Attempt(NamedTuple):
    """A commit that is about to be sent. tokens: partition -> token that it may prove."""

    era: int
    stamp: float
    tokens: Mapping[int, int]


class Membership:
    """One process's membership of a group, from one rebalance to the next."""

    def __init__(self, partitions: int, windows: Windows) -> None:
        """partitions: M, which must not change while the group has members."""
        self.induced = Induced(partitions, windows)
        self.era = 0
        self._assigned: frozenset[int] = frozenset()
        self._tokens: dict[int, int] = {}

    def revoked(self) -> list[Event]:
        """End the era: a rebalance begins, and all partitions are revoked.

        Exclusive roles end. Their events must be handled before the group continues, and then
        `released` called. Other roles continue until their proofs expire, or are confirmed in a new
        era.
        """
        self._end_era()
        return self._revoke() if self._is_exclusive else []

    def released(self) -> None:
        """Note that the callbacks for the revoked partitions have finished."""
        for partition in range(self.induced.partitions):
            self.induced.released(partition)

    def assigned(self, partitions: Collection[int]) -> None:
        """Note the partitions that a rebalance has assigned; only a commit proves them."""
        self._end_era()
        self._assigned = frozenset(partitions)

    @property
    def untitled(self) -> frozenset[int]:
        """Return the partitions that need an empty record, whose offset becomes their token."""
        return self._assigned - self._tokens.keys()

    def titled(self, partition: int, token: int, era: int) -> None:
        """Note the token of a partition: the offset of a record begun in `era`.

        The first one counts.
        """
        if era == self.era and partition in self._assigned:
            self._tokens.setdefault(partition, token)

    def attempt(self, now: float) -> Attempt:
        """Return the tokens that the next commit will prove.

        now: read before the commit is sent.
        """
        return Attempt(self.era, now, dict(self._tokens))

    def accepted(self, attempt: Attempt, now: float) -> list[Event]:
        """Note an accepted commit; its proofs count from when it was sent.

        A partition that stayed assigned over a rebalance, and was led all along, is reported once,
        as acquired with a greater token.
        """
        events = self.induced.lapsed(now)
        if attempt.era != self.era:
            return events
        for partition, token in attempt.tokens.items():
            found = self.induced.confirmed(partition, token, attempt.stamp, now)
            events += found[-1:]
        return events

    def refused(self, attempt: Attempt) -> list[Event]:
        """End the exclusive roles of the attempt's era: the broker has dropped this member."""
        if attempt.era != self.era:
            return []
        self._end_era()
        return self.induced.dropped() if self._is_exclusive else []

    def leaving(self) -> list[Event]:
        """End all roles before this member leaves, even if its last message gets lost."""
        self._end_era()
        return self._revoke()

    def failed(self) -> list[Event]:
        """End all roles after a permanent error."""
        self._end_era()
        return self.induced.dropped("left")

    @property
    def _is_exclusive(self) -> bool:
        return self.induced.windows.mode is Mode.EXCLUSIVE

    def _revoke(self) -> list[Event]:
        return [event for each in tuple(self.induced.held) for event in self.induced.revoked(each)]

    def _end_era(self) -> None:
        self.era += 1
        self._assigned = frozenset()
        self._tokens = {}
