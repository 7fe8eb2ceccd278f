"""Followers of a leader: a majority's answers, counted from when the leader *asked*.

A follower votes for no other member for some time after it was asked, so only the time of asking
counts, not the time of the answer. So a late answer cannot lengthen a leader's belief, which ends
by its own clock.

Source: leases (Gray and Cheriton, 1989), by rates of clocks; Raft's check-quorum (Ongaro, 6.2).
"""

import math

from docstore.ownership.by_vote import Recency


class Following:
    """The answers of one leader's peers, in seconds of the leader's clock."""

    def __init__(self, peers_count: int, window_s: float) -> None:
        self._others_needed = (peers_count + 1) // 2
        """Answers that form a majority together with the leader."""
        self._window_s = window_s
        self._begun_at = -math.inf
        self._sent: dict[str, float] = {}
        self._recencies: dict[str, Recency] = {}

    def begin(self, now: float) -> None:
        """Begin a lead: no follower has answered yet, and they have one window for it."""
        self._begun_at, self._sent, self._recencies = now, {}, {}

    def answered(self, peer: str, sent_s: float, recency: Recency, *, now: float) -> None:
        """Count an answer to the message sent at `sent_s`; ignore an impossible time."""
        if self._begun_at <= sent_s <= now:
            self._sent[peer] = max(sent_s, self._sent.get(peer, -math.inf))
            self._recencies[peer] = recency

    def is_current(self, now: float) -> bool:
        """Say whether a majority is bound to this leader at this instant."""
        return now - self._proven_at() < self._window_s

    def is_over(self, now: float) -> bool:
        """Say whether the silence of a majority is long enough for it to follow another leader."""
        return now - max(self._proven_at(), self._begun_at) >= self._window_s

    def most_recent(self, at_least: Recency, now: float, *, among: str = "") -> str | None:
        """Return the most recent follower that is heard and as recent as `at_least`.

        among: only this one.
        """
        able = [
            peer
            for peer, sent_s in self._sent.items()
            if among in {"", peer} and now - sent_s < self._window_s
            if self._recencies[peer] >= at_least
        ]
        return max(able, key=self._recencies.__getitem__) if able else None

    def _proven_at(self) -> float:
        """Return the sending time of the newest message that a majority has answered."""
        sent = sorted(self._sent.values(), reverse=True)
        return sent[self._others_needed - 1] if len(sent) >= self._others_needed else -math.inf
