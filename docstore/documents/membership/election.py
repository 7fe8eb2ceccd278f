"""The election of the register's leader: a vote per generation, after a pre-vote.

In: time, candidates, and answers to this node's own requests. Out: RequestVote, and Vote
once it is on the disk. The rules are in `ownership/by_vote.py` (V1, V2, V4); this file adds links
and the disk.

Source: Raft (Ongaro and Ousterhout, 2014, section 5.2; pre-vote: Ongaro's thesis, 9.6).
"""

from collections.abc import Callable

from docstore.documents.core import Core
from docstore.documents.membership.stored import StoredRegister
from docstore.ownership.by_vote import Recency, Role
from docstore.wire.messages import RequestVote, Succeed, Vote


class Election:
    def __init__(self, core: Core, stored: StoredRegister, won: Callable[[], None]) -> None:
        """won: called when a majority has voted for this node."""
        self.core = core
        self.outbox = core.outbox
        self.stored = stored
        self._won = won

    def tick(self) -> None:
        """Start a pre-vote when no leader was heard for too long."""
        if not self.stored.votes or not self.stored.voter.is_due(self.core.now):
            return
        if not self.core.is_draining:
            self._canvass()

    def _canvass(self) -> None:
        self.core.counters["canvasses"] += 1
        generation = self.stored.voter.begin(self.core.now)
        self._ask_votes(generation, pre=True)
        self._count(self.core.me, generation, pre=True)

    def _ask_votes(self, generation: int, *, pre: bool) -> None:
        message = RequestVote(generation, *self.stored.recency, pre)
        for peer in self.stored.other_voters():
            self.outbox.send_any(peer, message)

    def canvassed(self, sender: str, message: RequestVote) -> None:
        """Answer a candidate once the vote is on the disk."""
        theirs, voter = Recency(message.adopted, message.id), self.stored.voter
        granted = voter.asked(
            self.core.now, sender, message.generation, theirs, self.stored.recency, pre=message.pre
        )
        self.stored.save()
        vote = Vote(message.generation, voter.generation, granted, message.pre)
        self.outbox.when_durable(lambda: self.outbox.send_any(sender, vote))

    def voted(self, sender: str, message: Vote) -> None:
        if message.granted:
            self._count(sender, message.asked, pre=message.pre)
        elif message.generation > self.stored.voter.generation:
            self.stored.observe(message.generation)

    def _count(self, sender: str, generation: int, *, pre: bool) -> None:
        supported = self.stored.voter.supported(
            sender, generation, pre=pre, is_quorum=self.stored.is_quorum
        )
        if not supported:
            return
        if pre:
            self._stand()
        else:
            self._won()

    def succeed(self, sender: str, message: Succeed) -> None:
        """Stand for election without a pre-vote, because the leader itself asks for it."""
        voter = self.stored.voter
        follows = (voter.leader, voter.generation) == (sender, message.generation)
        if follows and voter.role is Role.FOLLOWER and not self.core.is_draining:
            self.core.counters["successions"] += 1
            self._stand()

    def _stand(self) -> None:
        voter = self.stored.voter
        voter.stand(self.core.now)
        self.stored.save()
        generation = voter.generation

        def ask() -> None:
            self._ask_votes(generation, pre=False)
            self._count(self.core.me, generation, pre=False)

        self.outbox.when_durable(ask)
