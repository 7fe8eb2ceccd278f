"""The configuration register: one value, chosen by vote, that names the members.

It is the only part of the system with an elected leader, and documents never wait for it. Its
parts, each in a file of this folder:

| file | subject |
|---|---|
| `stored.py` | this node's copy: its vote, the latest configuration |
| `election.py` | the election of the leader |
| `replication.py` | the leader sends the latest configuration to the voters until it is decided |
| `transfer.py` | a leader that drains transfers its leadership |
| `requests.py` | requests to change the group that wait for an answer |
| `policy.py` | the leader's own offers: the next step of a change, a removal |
| `readiness.py` | whether the slots are ready for that step |
| `notices.py` | decided configurations for nodes that are behind |

Source: Raft with a log of one entry (Ongaro and Ousterhout, 2014, sections 5 and 6).
"""

from collections.abc import Callable
from random import Random
from typing import assert_never

from docstore.documents.core import Core
from docstore.documents.membership.change import Change, ChangeRefused, begin
from docstore.documents.membership.election import Election
from docstore.documents.membership.notices import CommitNotices
from docstore.documents.membership.policy import next_configuration
from docstore.documents.membership.readiness import Readiness
from docstore.documents.membership.replication import Replication
from docstore.documents.membership.requests import ChangeRequests
from docstore.documents.membership.stored import StoredRegister
from docstore.documents.membership.transfer import Transfer
from docstore.ownership.configuration import Configuration, Registered
from docstore.wire.messages import Configured, Electing, Follow, Lead, RequestVote, Succeed, Vote


class Register:
    def __init__(
        self,
        core: Core,
        stored: Registered,
        rng: Random,
        *,
        use: Callable[[Configuration], None],
        blocks: Callable[[int], bool],
    ) -> None:
        """use: switches to a decided configuration. blocks: see `readiness.py`."""
        self.core = core
        self._use = use
        self.readiness = Readiness(core, blocks)
        self.stored = StoredRegister(core, stored, rng, self._learnt)
        self.requests = ChangeRequests(core)
        self.election = Election(core, self.stored, self._elected)
        self.replication = Replication(core, self.stored, self.requests)
        self.transfer = Transfer(core, self.stored, self.replication)
        self.notices = CommitNotices(core, self.stored)

    def restarted(self, stored: Registered) -> None:
        self.stored.restarted(stored)
        self.readiness.forget()
        for part in (self.requests, self.replication, self.transfer, self.notices):
            part.restarted()

    def received(self, sender: str, message: Electing) -> None:
        match message:
            case RequestVote():
                self.election.canvassed(sender, message)
            case Vote():
                self.election.voted(sender, message)
            case Lead():
                self.replication.led(sender, message)
            case Follow():
                self.replication.followed(sender, message)
            case Succeed():
                self.election.succeed(sender, message)
            case Configured():
                self.notices.told(message)
            case _:
                assert_never(message)

    @property
    def leader(self) -> str | None:
        return self.stored.voter.leader

    def ask(self, request: int, change: Change) -> None:
        """Begin a change; answer when its first configuration is decided, or with the refusal."""
        why_not = self._why_not_now()
        if why_not:
            self.requests.answer(request, 503, "not-the-leader", why_not)
            return
        try:
            following = begin(self.core.configuration, change)
        except ChangeRefused as refused:
            self.requests.answer(request, refused.status, refused.code, refused.detail)
            return
        self.requests.begun(request, following.id)
        self.replication.offer(following)

    def _why_not_now(self) -> str:
        """Return why this node cannot begin a change, "" if it can."""
        if not self.stored.leads:
            return f"the leader of the configuration is {self.leader or 'not elected yet'}"
        if self.core.is_draining:
            return "the leader is leaving"
        return "" if self.stored.is_decided else "another change is being decided"

    def tick(self) -> None:
        """Act as leader if this node leads; otherwise seek election when no leader is heard."""
        self.stored.voter.watch(self.core.now, self.stored.is_quorum)
        if not self.stored.leads:
            self.requests.leave()
            self.election.tick()
            return
        if self.core.is_draining:
            self.transfer.tick()
        else:
            self._advance()
        self.replication.tick()

    def _advance(self) -> None:
        if not self.stored.is_decided:
            return
        following = next_configuration(self.core, self.readiness)
        if following is not None:
            self.replication.offer(following)

    def _elected(self) -> None:
        self.core.counters["elected"] += 1
        self.stored.voter.lead(self.core.now)
        self.readiness.forget()
        self.replication.offer(self.stored.latest)

    def _learnt(self, decided: Configuration) -> None:
        self.readiness.forget()
        self._use(decided)
