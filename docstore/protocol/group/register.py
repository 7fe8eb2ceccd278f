"""The configuration register: one value, chosen by vote, that says who the members are.

It is the only part of the system with an elected leader (`ownership/by_vote.py`), and documents
never wait for it. The leader keeps the latest configuration, offers it to all voters, and holds
it for decided when majorities have stored it in the leader's own generation. A new leader first
offers what it has under its own generation, so that nothing an earlier one decided is lost (V3). A
node *uses* a configuration only once it is decided; the register counts by the latest one that
it has stored, decided or not. A leader that drains has a voter that holds all of it stand at once.

The leader also carries a change on: from learning to joint when the newcomers have what the old
members have, from joint to stable when every slot is open under majorities of both.

Source: Raft with a log of one entry (Ongaro and Ousterhout, 2014, sections 5 and 6; transfer of
leadership: Ongaro's thesis, 3.10).
"""

from collections.abc import Callable, Collection, Iterable
from random import Random
from typing import assert_never

from docstore.ownership.by_vote import Recency, Role, Times, Voter
from docstore.protocol import quorum
from docstore.protocol.core import NEVER, Core
from docstore.protocol.effects import ChangeAnswered
from docstore.protocol.group.change import Change, ChangeRefused, Kind, advanced, begin
from docstore.protocol.group.configuration import (
    Configuration,
    Registered,
    Stage,
    unpack_configuration,
    with_votes,
)
from docstore.protocol.group.readiness import Readiness
from docstore.storage.store import SaveConfiguration
from docstore.wire import Canvass, Configured, Electing, Follow, Lead, Succeed, Vote


class Register:
    """One node's copy of the register, and its part in leading it."""

    def __init__(
        self, core: Core, stored: Registered, rng: Random, use: Callable[[Configuration], None]
    ) -> None:
        self.core = core
        self._rng = rng
        self._use = use
        """Goes over to a configuration that is decided."""
        self.readiness = Readiness(core)
        self.restarted(stored)

    def restarted(self, stored: Registered) -> None:
        """Begin again from what is on disk."""
        self.adopted, self.latest = stored.adopted, stored.latest
        self._saved = stored
        config = self.core.config
        self.voter = Voter(
            self.core.me,
            generation=stored.generation,
            voted_for=stored.voted_for,
            rng=self._rng,
            times=Times(config.heartbeat_interval_s, config.owner_timeout_s),
            now=self.core.now,
        )
        self._holds: dict[str, int] = {}
        """While leading: voter -> id of the configuration that it has stored from us."""
        self.readiness.forget()
        self._asked: dict[int, int] = {}
        """Request -> id of the configuration that answers it when decided."""
        self._beat_at = self._told_heir_at = NEVER
        self._told: dict[str, tuple[float, int]] = {}
        """Node -> when it was told of which configuration."""

    def received(self, sender: str, message: Electing) -> None:
        """Take a message."""
        match message:
            case Canvass():
                self.canvassed(sender, message)
            case Vote():
                self.voted(sender, message)
            case Lead():
                self.led(sender, message)
            case Follow():
                self.followed(sender, message)
            case Succeed():
                self.succeed(sender, message)
            case Configured():
                self.told(message)
            case _:
                assert_never(message)

    # What others ask

    @property
    def leader(self) -> str | None:
        """Return who leads, as far as this node knows."""
        return self.voter.leader

    def is_quorum(self, heard: Collection[str]) -> bool:
        """Say whether these are majorities of the voters, by the latest configuration."""
        return quorum.is_quorum(heard, self.latest.voting)

    def ask(self, request: int, change: Change) -> None:
        """Begin a change; answered when its first configuration is decided, or refused."""
        decided = self.core.configuration
        unready = self.core.is_draining or self.latest.id != decided.id
        if self.voter.role is not Role.LEADER or unready:
            why = "another change is being decided"
            if self.core.is_draining:
                why = "the leader is leaving"
            if self.voter.role is not Role.LEADER:
                why = f"the leader of the configuration is {self.leader or 'not elected yet'}"
            self._answer(request, 503, "not-the-leader", why)
            return
        try:
            following = begin(decided, change)
        except ChangeRefused as refused:
            self._answer(request, refused.status, refused.code, refused.detail)
            return
        self._asked[request] = following.id
        self._offer(following)

    def _answer(self, request: int, status: int, code: str, detail: str) -> None:
        self.core.emit(ChangeAnswered(request, status, code, detail))

    # Time

    def tick(self) -> None:
        """Ask for votes when no leader is heard; lead when we are the one."""
        core, voter = self.core, self.voter
        voter.watch(core.now, self.is_quorum)
        if voter.role is Role.LEADER:
            if core.is_draining:
                self._give_up()
            else:
                self._advance()
            if core.now - self._beat_at >= core.config.heartbeat_interval_s:
                self._beat()
            return
        self._drop_asked()
        votes = any(core.me in voters for voters in self.latest.voting)
        if votes and voter.is_due(core.now) and not core.is_draining:
            self._canvass()

    def _drop_asked(self) -> None:
        """Whoever asked when we led must look for itself: a later leader may finish it."""
        asked, self._asked = self._asked, {}
        for request in asked:
            self._answer(request, 504, "undecided", "the leader changed; look at the configuration")

    # Giving the lead away

    def heir(self) -> str | None:
        """Return a voter that holds all that we do, and stays: who leads next if we leave."""
        if self.voter.role is not Role.LEADER or self.latest.id != self.core.configuration.id:
            return None  # What is under way is finished first.
        held = (each for each in self._voters() if self._holds.get(each) == self.latest.id)
        return next((each for each in held if self.core.may_own(each)), None)

    def _give_up(self) -> None:
        """Have the heir stand now: nobody has to grow impatient. Lost, it is said again."""
        heir = self.heir()
        if (
            heir is not None
            and self.core.now >= self._told_heir_at + self.core.config.heartbeat_interval_s
        ):
            self._told_heir_at = self.core.now
            self.core.send_any(heir, Succeed(self.voter.generation))

    def succeed(self, sender: str, message: Succeed) -> None:
        """Stand without a pre-vote: the leader itself asks for it."""
        follows = (self.voter.leader, self.voter.generation) == (sender, message.generation)
        if follows and self.voter.role is Role.FOLLOWER and not self.core.is_draining:
            self.core.counters["successions"] += 1
            self._stand()

    # Election

    def _canvass(self) -> None:
        self.core.counters["canvasses"] += 1
        generation = self.voter.begin(self.core.now)
        self._ask_votes(generation, pre=True)
        self._count(self.core.me, generation, pre=True)

    def _ask_votes(self, generation: int, *, pre: bool) -> None:
        message = Canvass(generation, self.adopted, self.latest.id, pre)
        for peer in self._voters():
            self.core.send_any(peer, message)

    def _voters(self) -> Iterable[str]:
        return sorted({each for voters in self.latest.voting for each in voters} - {self.core.me})

    def canvassed(self, sender: str, message: Canvass) -> None:
        """Answer a candidate, after the vote is on disk."""
        theirs, mine = Recency(message.adopted, message.id), Recency(self.adopted, self.latest.id)
        granted = self.voter.asked(
            self.core.now, sender, message.generation, theirs, mine, pre=message.pre
        )
        self._save()
        vote = Vote(message.generation, self.voter.generation, granted, message.pre)
        self.core.when_durable(lambda: self.core.send_any(sender, vote))

    def voted(self, sender: str, message: Vote) -> None:
        """Count an answer."""
        if message.granted:
            self._count(sender, message.asked, pre=message.pre)
        elif message.generation > self.voter.generation:
            self.voter.observe(message.generation, self.core.now)
            self._save()

    def _count(self, sender: str, generation: int, *, pre: bool) -> None:
        if not self.voter.supported(sender, generation, pre=pre, is_quorum=self.is_quorum):
            return
        if pre:
            self._stand()
        else:
            self._lead()

    def _stand(self) -> None:
        self.voter.stand(self.core.now)
        self._save()
        generation = self.voter.generation

        def ask() -> None:
            self._ask_votes(generation, pre=False)
            self._count(self.core.me, generation, pre=False)

        self.core.when_durable(ask)

    # Leading

    def _lead(self) -> None:
        self.core.counters["elected"] += 1
        self.voter.lead(self.core.now)
        self.readiness.forget()
        self._offer(self.latest)

    def _offer(self, configuration: Configuration) -> None:
        """Store a configuration under our generation, here and at all voters."""
        self.adopted, self.latest = self.voter.generation, configuration
        self._holds = {}
        self._save()
        generation, number = self.adopted, configuration.id
        self.core.when_durable(lambda: self._stored_here(generation, number))
        self._beat()

    def _stored_here(self, generation: int, number: int) -> None:
        if self.voter.role is Role.LEADER and self.voter.generation == generation:
            self._note(self.core.me, number)

    def _beat(self) -> None:
        self._beat_at = self.core.now
        generation, number = self.voter.generation, self.latest.id
        packed = self.latest.pack()
        decided = self.core.configuration.id
        for peer in self._voters():
            known = self._holds.get(peer) == number
            self.core.send_any(peer, Lead(generation, number, decided, b"" if known else packed))

    def led(self, sender: str, message: Lead) -> None:
        """Follow a leader: store what it offers, then say what we hold."""
        if not self.voter.follow(sender, message.generation, self.core.now):
            self.core.send_any(sender, Follow(self.voter.generation, -1))
            return
        newer = (message.generation, message.id) > (self.adopted, self.latest.id)
        if message.packed and newer:
            self.adopted = message.generation
            self.latest = unpack_configuration(message.packed)
        self._save()
        holds = self.adopted == message.generation
        if holds and self.latest.id <= message.decided:
            self._learn(self.latest)
        answer = Follow(message.generation, self.latest.id if holds else -1)
        self.core.when_durable(lambda: self.core.send_any(sender, answer))

    def followed(self, sender: str, message: Follow) -> None:
        """Count who has stored what we offer."""
        if message.generation > self.voter.generation:
            self.voter.observe(message.generation, self.core.now)
            self._save()
        elif self.voter.role is Role.LEADER and message.generation == self.voter.generation:
            self.voter.answered(sender, self.core.now)
            self._note(sender, message.id)

    def _note(self, voter: str, number: int) -> None:
        self._holds[voter] = max(number, self._holds.get(voter, -1))
        holders = [each for each, held in self._holds.items() if held == self.latest.id]
        if self.latest.id > self.core.configuration.id and self.is_quorum(holders):
            self._decided()

    def _decided(self) -> None:
        """The latest configuration is stored by majorities: it is decided, for ever."""
        self._learn(self.latest)
        for request in [each for each, number in self._asked.items() if number <= self.latest.id]:
            del self._asked[request]
            self._answer(request, 202, "", f"configuration {self.latest.id}")
        self._beat()
        if not any(self.core.me in voters for voters in self.latest.voting):
            self.voter.retire(self.core.now)  # We have led the group to go on without us.

    # Carrying a change on

    def _advance(self) -> None:
        configuration = self.core.configuration
        if self.latest.id != configuration.id:
            return
        if configuration.stage is Stage.STABLE:
            if not self._propose_removal(configuration):
                self._spread_votes(configuration)
        elif self.readiness.is_complete():
            self.core.counters["steps_of_change"] += 1
            self._offer(advanced(configuration))

    def _spread_votes(self, configuration: Configuration) -> None:
        """Move votes to other zones, when all members are there: nothing then stands in its way.

        Founders do not spread them, nor do older versions.
        """
        core = self.core
        if with_votes(configuration.members) == configuration.members:
            return
        if all(map(core.is_alive, core.peers)):
            core.counters["votes_spread"] += 1
            self._offer(begin(configuration, Change(Kind.SPREAD)))

    def _propose_removal(self, configuration: Configuration) -> bool:
        """Take out a member that has been silent for as long as the operator allows, if one has."""
        patience_s = self.core.config.remove_after_s
        if patience_s <= 0 or self.core.now - self.core.started_at < patience_s:
            return False
        for member, peer in self.core.peers.items():
            if self.core.now - peer.last_word_at < patience_s:
                continue
            try:
                following = begin(configuration, Change(Kind.REMOVE, member))
            except ChangeRefused:
                continue  # Too few would remain.
            self.core.counters["removals_proposed"] += 1
            self._offer(following)
            return True
        return False

    # Learning

    def tell(self, peer: str) -> None:
        """Tell a node that is behind which configuration is decided."""
        now, number = self.core.now, self.core.configuration.id
        told_at, told = self._told.get(peer, (NEVER, 0))
        if told == number and now - told_at < self.core.config.resend_interval_s:
            return
        self._told[peer] = (now, number)
        self.core.send_any(peer, Configured(self.core.configuration.pack()))

    def told(self, message: Configured) -> None:
        """Take a decided configuration from any member."""
        self._learn(unpack_configuration(message.packed))

    def _learn(self, decided: Configuration) -> None:
        if decided.id <= self.core.configuration.id:
            return
        if decided.id > self.latest.id:
            # Decided by others: whatever we have stored under any generation is older.
            self.latest = decided
        self.readiness.forget()
        self._use(decided)
        self._save()

    def _save(self) -> None:
        """Let what changed join the batch that forms."""
        voter = self.voter
        now = Registered(
            self.core.configuration, voter.generation, voter.voted_for, self.adopted, self.latest
        )
        if now != self._saved:
            self._saved = now
            self.core.store(SaveConfiguration(now.pack()))
