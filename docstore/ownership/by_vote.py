"""Policy by vote: the member that a majority voted for in this generation leads.

Based on the Leader and Followers pattern. The fence is the generation: a member that has seen a
later one rejects an earlier leader. For at most one leader at any instant see `elector.py`.

A voter hears a leader, or asks the others after a random timeout whether they would vote for it.
This pre-vote binds no voter. So a member that was cut off does not disturb a healthy leader. With a
majority of such promises the voter begins a new generation, votes for itself and asks for votes. A
voter votes once per generation, durably (rule V1), and only for a candidate whose copy of the log
is at least as recent as its own (V2). A voter that hears a leader refuses the pre-vote, and a
leader that does not hear a majority steps down by itself (V4).

Pure: the caller brings the clock, sends the messages, and stores `generation` and `voted_for`
before it sends an answer that depends on them.

Source: the Leader and Followers pattern (Joshi, 2023) with the corrections of Raft (Ongaro and
Ousterhout, 2014, sections 5.2 and 5.4.1; pre-vote and check-quorum: Ongaro's thesis, 9.6, 6.2).
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import NamedTuple

IsQuorum = Callable[[Collection[str]], bool]
"""Says whether these members are a majority of the voters, by this member's own copy of the log."""


class Role(Enum):
    FOLLOWER = auto()
    ASKING = auto()
    """The member holds a pre-vote."""
    CANDIDATE = auto()
    LEADER = auto()


class Recency(NamedTuple):
    """The recency of a copy of the log, compared by generation first."""

    generation: int
    number: int


@dataclass(frozen=True, slots=True)
class Times:
    """The times of an election, in seconds."""

    heartbeat_s: float = 0.2
    """Interval between two heartbeats of a leader."""

    patience_s: float = 1.2
    """Least silence after which a follower begins a pre-vote; at random up to twice this."""


class Voter:
    def __init__(
        self, me: str, *, generation: int, voted_for: str, rng: Random, times: Times, now: float
    ) -> None:
        self.me = me
        self.generation = generation
        self.voted_for = voted_for
        self.role = Role.FOLLOWER
        self.leader: str | None = None
        self._rng = rng
        self._times = times
        self._heard_at = now
        self._patience_s = self._draw()
        self._supporters: set[str] = set()
        self._followers: dict[str, float] = {}
        """While leading: voter -> time of its last answer."""

    def _draw(self) -> float:
        return self._times.patience_s * (1 + self._rng.random())

    # Followers and candidates

    def is_due(self, now: float) -> bool:
        return self.role is not Role.LEADER and now - self._heard_at >= self._patience_s

    def begin(self, now: float) -> int:
        """Begin a pre-vote; return the generation that this member would lead."""
        self._rest(now)
        self.role, self.leader = Role.ASKING, None
        self._supporters = {self.me}
        return self.generation + 1

    def stand(self, now: float) -> None:
        """Begin a generation as its candidate; this member's own vote counts once it is stored."""
        self._rest(now)
        self.generation += 1
        self.voted_for = self.me
        self.role = Role.CANDIDATE
        self._supporters = set()

    def asked(  # Tests replace this.
        self,
        now: float,
        candidate: str,
        generation: int,
        theirs: Recency,
        mine: Recency,
        *,
        pre: bool,
    ) -> bool:
        """Say whether `candidate` gets this member's vote; the caller stores what changed."""
        recent = self.is_recent(theirs, mine)
        if pre:
            return generation > self.generation and recent and not self._hears_leader(now)
        self.observe(generation, now)
        free = generation == self.generation and self.voted_for in ("", candidate)
        if not free or not recent or self.role is Role.LEADER:
            return False
        self.voted_for = candidate
        self._rest(now)
        return True

    def is_recent(self, theirs: Recency, mine: Recency) -> bool:
        """Say whether a candidate's copy is at least as recent as this one (V2)."""
        return theirs >= mine

    def supported(self, voter: str, generation: int, *, pre: bool, is_quorum: IsQuorum) -> bool:
        """Count a vote; say whether it made a majority."""
        wanted = Role.ASKING if pre else Role.CANDIDATE
        about = self.generation + 1 if pre else self.generation
        if self.role is not wanted or generation != about:
            return False
        self._supporters.add(voter)
        return is_quorum(self._supporters)

    def observe(self, generation: int, now: float) -> None:
        if generation > self.generation:
            self.generation, self.voted_for = generation, ""
            self._rest(now)

    def follow(self, leader: str, generation: int, now: float) -> bool:
        """Take a leader's heartbeat; return False when its generation is over."""
        if generation < self.generation:
            return False
        self.observe(generation, now)
        self._rest(now)
        self.leader = leader
        return True

    def _rest(self, now: float) -> None:
        self.role = Role.FOLLOWER
        self._heard_at, self._patience_s = now, self._draw()

    def _hears_leader(self, now: float) -> bool:
        if self.role is Role.LEADER:
            return True
        return self.leader is not None and now - self._heard_at < self._times.patience_s

    # Leaders

    def lead(self, now: float) -> None:
        self.role, self.leader = Role.LEADER, self.me
        self._followers = dict.fromkeys(self._supporters, now)

    def answered(self, voter: str, now: float) -> None:
        self._followers[voter] = now

    def watch(self, now: float, is_quorum: IsQuorum) -> None:
        """Step down if no majority has answered for `patience_s`: it may elect another leader."""
        since = now - self._times.patience_s
        heard = {voter for voter, at in self._followers.items() if at >= since}
        if self.role is Role.LEADER and not is_quorum(heard | {self.me}):
            self.retire(now)

    def retire(self, now: float) -> None:
        self._rest(now)
        self.leader = None
