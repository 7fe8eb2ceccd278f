"""The vote for a user's own few processes: one of 3 to 7 leads, and never two at one instant.

Based on the Leader and Followers pattern (election within the cluster), without its log. The fence
is `generation`: it grows with each election, has one leader at most, and is the token of the
leader's writes to other systems. `Voter` (by_vote.py) counts the votes, which is enough where each
message is fenced by its generation. Here exclusivity rests on time, so there is more:

(a) `leads(now)`: a majority has answered a heartbeat that was *sent* less than
    patience (1 - rho) / (1 + rho) ago, by a clock whose rate is wrong by rho at the most.
(b) A member that has heard a leader casts no vote for one patience, and no pre-vote either. A
    leader casts none while it leads.
(c) Nor does a member that has just started, for one patience: it may have heard a leader before.

Why two never lead. Let `old` have a proof from a majority, `new` of a later generation votes from
another; some voter is in both. Had this voter voted first, it would have refused the heartbeat,
whose generation is over. So the voter heard the heartbeat at time r, and then cast no vote for a
real patience/(1+rho) by (b), or, having crashed, by (c). The heartbeat was sent before r, and `old`
believes for a real patience/(1+rho) from then by (a). So once `new` is elected, `old` does not
believe any more. Neither delays nor the readings of clocks matter; their rates do, and that a
process reads its clock when it acts.

A *transfer* is exempt from (b), safely: a leader drops its proof before it asks the successor to
begin an election, and never leads that generation again. Left out: a log, changing members, reads
by lease.

Sources: as in by_vote.py; leases on rates of clocks alone: Gray and Cheriton (1989).
"""

from collections.abc import Collection
from random import Random
from typing import assert_never

from docstore.ownership import elector_messages as messages
from docstore.ownership.by_vote import Recency, Role, Times, Voter
from docstore.ownership.following import Following

RHO = 1e-3
"""Maximum relative error of a clock's rate; computers are ten times better."""
MEMBERS = range(3, 8)
"""Allowed numbers of voters: fewer tolerate no failure, more belong into a store of their own."""


class Elector:
    def __init__(
        self,
        me: str,
        peers: Collection[str],
        *,
        stored: tuple[int, str],
        rng: Random,
        times: Times,
        now: float,
        rho: float = RHO,
    ) -> None:
        """Begin as a follower that has not voted.

        peers: all others. stored: (generation, voted_for) as last kept; (0, "") if never.
        Raises ValueError for a group that is too small or too large, or times that cannot work.
        """
        if len({me, *peers}) != len(peers) + 1 or len(peers) + 1 not in MEMBERS:
            raise ValueError(
                f"there must be 3 to 7 different members that vote; got {sorted({me, *peers})}"
            )
        if not 0 <= rho < 1 or not 0 < 2 * times.heartbeat_s < times.patience_s:
            raise ValueError(
                "`patience` must be more than two heartbeats, and `rho` at least 0 and below 1"
            )
        self.me = me
        self.recency = Recency(0, 0)
        """Recency of this member's copy, set by the caller; less recent candidates get no vote."""
        self._peers = sorted(peers)
        self._times = times
        self._voter = Voter(
            me, generation=stored[0], voted_for=stored[1], rng=rng, times=times, now=now
        )
        self._following = Following(len(peers), times.patience_s * (1 - rho) / (1 + rho))
        self._bound_until = now + times.patience_s
        self._followed: tuple[int, str | None] = (0, None)
        self._shown: tuple[int, str | None] = (0, None)
        self._call_at = now
        self._is_succeeding = False
        """As a candidate: whether the former leader asked it to stand."""
        self._successor = ""
        """Successor chosen by a leader that has resigned."""

    @property
    def generation(self) -> int:
        """Return the latest generation known: the fencing token of its leader."""
        return self._voter.generation

    @property
    def role(self) -> Role:
        """Return this member's role; a leader's role proves nothing: ask `leads`."""
        return self._voter.role

    def leads(self, now: float) -> bool:
        """Say whether this member leads at this very instant of its clock (see a above)."""
        return self.role is Role.LEADER and self._following.is_current(now)

    def leader(self, now: float) -> str | None:
        """Return the leader of this generation, as far as heard."""
        if self.leads(now):
            return self.me
        generation, leader = self._followed
        is_ours = self.role is Role.FOLLOWER and generation == self.generation
        return leader if is_ours else None

    def step(self, event: messages.Event, now: float) -> list[messages.Effect]:
        """Return the effects of `event`, in the order in which they must be done."""
        shown, kept = self._shown, (self.generation, self._voter.voted_for)
        self._check_quorum(now)
        match event:
            case messages.Tick():
                sends = self._tick(now)
            case messages.Received(sender, message):
                sends = self._receive(sender, message, now) if sender in self._peers else []
            case messages.Transfer(to):
                sends = self._transfer(to, now)
            case _:
                assert_never(event)
        new = (self.generation, self._voter.voted_for)
        keep = [messages.SaveVote(*new)] if new != kept else []
        leader = self.leader(now)
        self._shown = (self.generation if leader else 0, leader)
        changed = [messages.Changed(self.generation, leader)] if self._shown != shown else []
        return [*keep, *sends, *changed]

    # Candidates

    def _tick(self, now: float) -> list[messages.Effect]:
        if self._voter.is_due(now):
            self._voter.begin(now)
            self._call_at = now
        return self._call(now) if now >= self._call_at else []

    def _call(self, now: float) -> list[messages.Effect]:
        """Send the message of this member's role, again and again, since datagrams get lost."""
        generation = self.generation
        self._call_at = now + self._times.heartbeat_s
        match self.role:
            case Role.FOLLOWER:
                return []
            case Role.ASKING:
                message: messages.Message = messages.RequestVote(
                    generation + 1, *self.recency, pre=True, transfer=False
                )
            case Role.CANDIDATE:
                by_transfer = self._is_succeeding
                message = messages.RequestVote(
                    generation, *self.recency, pre=False, transfer=by_transfer
                )
            case Role.LEADER if self._successor:
                return [
                    messages.Send(self._successor, messages.Lead(generation, now, succeed=True))
                ]
            case Role.LEADER:
                message = messages.Lead(generation, now, succeed=False)
            case _:
                assert_never(self.role)
        return [messages.Send(peer, message) for peer in self._peers]

    def _stand(self, now: float, *, transfer: bool) -> list[messages.Effect]:
        """Begin a generation. This member's own vote is stored before it asks for others."""
        assert transfer or now >= self._bound_until
        self._voter.stand(now)
        self._voter.supported(self.me, self.generation, pre=False, is_quorum=self._is_quorum)
        self._is_succeeding = transfer
        return self._call(now)

    def _counted(self, sender: str, vote: messages.Granted, now: float) -> list[messages.Effect]:
        voter = self._voter
        if not vote.is_granted:
            voter.observe(vote.generation, now)
            return []
        if not voter.supported(sender, vote.generation, pre=vote.pre, is_quorum=self._is_quorum):
            return []
        if vote.pre:
            return self._stand(now, transfer=False)
        voter.lead(now)
        self._successor = ""
        self._following.begin(now)
        return self._call(now)

    # Voters and followers

    def _receive(self, sender: str, message: messages.Message, now: float) -> list[messages.Effect]:
        match message:
            case messages.RequestVote():
                return [messages.Send(sender, self._asked(sender, message, now))]
            case messages.Granted():
                return self._counted(sender, message, now)
            case messages.Lead():
                return self._follow(sender, message, now)
            case messages.Follow():
                self._followed_by(sender, message, now)
                return []
            case _:
                assert_never(message)

    def _asked(self, sender: str, stand: messages.RequestVote, now: float) -> messages.Granted:
        """Answer a candidate; a refusal for (b) or (c) changes no state."""
        generation, *last, pre, transfer = stand
        is_granted = (transfer or not self._is_bound(now)) and self._voter.asked(
            now, sender, generation, Recency(*last), self.recency, pre=pre
        )
        return messages.Granted(generation if is_granted else self.generation, pre, is_granted)

    def _is_bound(self, now: float) -> bool:
        """Say whether a leader may rely on this member not voting (b, c)."""
        return self.role is Role.LEADER or now < self._bound_until

    def _follow(self, sender: str, lead: messages.Lead, now: float) -> list[messages.Effect]:
        is_ours = self._voter.follow(sender, lead.generation, now)
        answer = messages.Send(sender, messages.Follow(self.generation, lead.sent_s, *self.recency))
        if not is_ours:
            return [answer]
        self._followed = (lead.generation, sender)
        if lead.succeed:
            return self._stand(now, transfer=True)
        self._bound_until = now + self._times.patience_s
        return [answer]

    # Leaders

    def _followed_by(self, sender: str, follow: messages.Follow, now: float) -> None:
        generation, sent_s, *last = follow
        self._voter.observe(generation, now)
        is_ours = self.role is Role.LEADER and generation == self.generation
        if is_ours and not self._successor:
            self._following.answered(sender, sent_s, Recency(*last), now=now)

    def _check_quorum(self, now: float) -> None:
        """Step down without a quorum, so that this member may follow and vote again."""
        if self.role is Role.LEADER and self._following.is_over(now):
            self._voter.retire(now)

    def _transfer(self, to: str, now: float) -> list[messages.Effect]:
        """Resign, then ask the successor to stand; do nothing if no follower is as recent."""
        successor = self._following.most_recent(self.recency, now, among=to)
        if not self.leads(now) or successor is None:
            return []
        self._successor = successor
        self._following.begin(now)
        return self._call(now)

    def _is_quorum(self, supporters: Collection[str]) -> bool:
        return 2 * len(supporters) > len(self._peers) + 1
