"""The register's leader sends the latest configuration to all voters, and counts acknowledgements.

The configuration is decided once majorities have stored it in the leader's own generation. A new
leader first offers its latest configuration under its own generation, so that no decision of an
earlier leader is lost (V3).

Source: Raft with a log of one entry (Ongaro and Ousterhout, 2014, sections 5.3 and 5.4).
"""

from docstore.documents.core import Core
from docstore.documents.membership.requests import ChangeRequests
from docstore.documents.membership.stored import StoredRegister
from docstore.documents.membership.stored_protocol import may_tell
from docstore.documents.peers import NEVER
from docstore.ownership.configuration import Configuration, unpack_configuration
from docstore.wire.messages import Follow, Lead


class Replication:
    def __init__(self, core: Core, stored: StoredRegister, requests: ChangeRequests) -> None:
        """requests: answered when a configuration is decided."""
        self.core = core
        self.outbox = core.outbox
        self.stored = stored
        self.requests = requests
        self.restarted()

    def restarted(self) -> None:
        self._stored_by: dict[str, int] = {}
        """While leading: voter -> id of the configuration that it has stored."""
        self._beat_at = NEVER

    # The leader

    def offer(self, configuration: Configuration) -> None:
        """Store a configuration under this leader's generation, here and at all voters."""
        stored = self.stored
        stored.adopted, stored.latest = stored.voter.generation, configuration
        self._stored_by = {}
        stored.save()
        generation, number = stored.adopted, configuration.id
        self.outbox.when_durable(lambda: self._stored_here(generation, number))
        self._beat()

    def _stored_here(self, generation: int, number: int) -> None:
        if self.stored.leads and self.stored.voter.generation == generation:
            self._count(self.core.me, number)

    def tick(self) -> None:
        """Send heartbeats when due; voters that lack the latest configuration get it again."""
        if self.core.now - self._beat_at >= self.core.config.leadership.heartbeat_interval_s:
            self._beat()

    def _beat(self) -> None:
        self._beat_at = self.core.now
        generation, number = self.stored.voter.generation, self.stored.latest.id
        packed = self.stored.latest.pack()
        decided = self.core.configuration.id
        for peer in self.stored.other_voters():
            is_needed = self._stored_by.get(peer) != number
            offered = packed if is_needed and may_tell(self.core, peer, self.stored.latest) else b""
            self.outbox.send_any(peer, Lead(generation, number, decided, offered))

    def followed(self, sender: str, message: Follow) -> None:
        voter = self.stored.voter
        if message.generation > voter.generation:
            self.stored.observe(message.generation)
        elif self.stored.leads and message.generation == voter.generation:
            voter.answered(sender, self.core.now)
            self._count(sender, message.id)

    def _count(self, voter: str, number: int) -> None:
        self._stored_by[voter] = max(number, self._stored_by.get(voter, -1))
        stored, latest = self.stored, self.stored.latest.id
        holders = [each for each, held in self._stored_by.items() if held == latest]
        if latest > self.core.configuration.id and stored.is_quorum(holders):
            self._decided()

    def _decided(self) -> None:
        """Use the latest configuration, which is decided: majorities have stored it."""
        self.stored.learn(self.stored.latest)
        self.requests.decided(self.stored.latest.id)
        self._beat()
        if not self.stored.votes:
            self.stored.voter.retire(self.core.now)  # No longer a voter.

    def up_to_date(self) -> list[str]:
        """Return the other voters that have stored the latest configuration from this leader."""
        latest = self.stored.latest.id
        return [each for each in self.stored.other_voters() if self._stored_by.get(each) == latest]

    # The followers

    def led(self, sender: str, message: Lead) -> None:
        """Follow a leader: store its offer, then report what this node holds."""
        stored = self.stored
        if not stored.voter.follow(sender, message.generation, self.core.now):
            self.outbox.send_any(sender, Follow(stored.voter.generation, -1))
            return
        newer = (message.generation, message.id) > stored.recency
        if message.packed and newer:
            stored.adopted = message.generation
            stored.latest = unpack_configuration(message.packed)
        stored.save()
        holds = stored.adopted == message.generation
        if holds and stored.latest.id <= message.decided:
            stored.learn(stored.latest)
        answer = Follow(message.generation, stored.latest.id if holds else -1)
        self.outbox.when_durable(lambda: self.outbox.send_any(sender, answer))
