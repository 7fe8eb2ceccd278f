"""A node's copy of the register: its vote, and the latest configuration that it has stored.

A node *uses* a configuration only once it is decided. Votes and majorities are counted by the
latest configuration that it has stored, decided or not. The node reports a vote or a configuration
only when it is on disk.
"""

from collections.abc import Callable, Collection
from random import Random

from docstore.documents.core import Core
from docstore.ownership import quorum
from docstore.ownership.by_vote import Recency, Role, Times, Voter
from docstore.ownership.configuration import Configuration, Registered
from docstore.storage.store import SaveConfiguration


class StoredRegister:
    def __init__(
        self, core: Core, stored: Registered, rng: Random, use: Callable[[Configuration], None]
    ) -> None:
        """use: switches to a decided configuration."""
        self.core = core
        self.outbox = core.outbox
        self._rng = rng
        self._use = use
        self.restarted(stored)

    def restarted(self, stored: Registered) -> None:
        self.adopted, self.latest = stored.adopted, stored.latest
        self._saved = stored
        config = self.core.config
        self.voter = Voter(
            self.core.me,
            generation=stored.generation,
            voted_for=stored.voted_for,
            rng=self._rng,
            times=Times(config.leadership.heartbeat_interval_s, config.leadership.owner_timeout_s),
            now=self.core.now,
        )

    @property
    def leads(self) -> bool:
        return self.voter.role is Role.LEADER

    @property
    def votes(self) -> bool:
        return any(self.core.me in voters for voters in self.latest.voting)

    @property
    def recency(self) -> Recency:
        return Recency(self.adopted, self.latest.id)

    @property
    def is_decided(self) -> bool:
        """Say whether the latest configuration is the one in use: no change is being decided."""
        return self.latest.id == self.core.configuration.id

    def is_quorum(self, heard: Collection[str]) -> bool:
        return quorum.is_quorum(heard, self.latest.voting)

    def other_voters(self) -> list[str]:
        return sorted({each for voters in self.latest.voting for each in voters} - {self.core.me})

    def observe(self, generation: int) -> None:
        self.voter.observe(generation, self.core.now)
        self.save()

    def learn(self, decided: Configuration) -> None:
        """Use a decided configuration, unless this node uses it or a later one."""
        if decided.id <= self.core.configuration.id:
            return
        if decided.id > self.latest.id:
            # Other voters have decided it, so every configuration stored here is older.
            self.latest = decided
        self._use(decided)
        self.save()

    def save(self) -> None:
        voter = self.voter
        now = Registered(
            self.core.configuration, voter.generation, voter.voted_for, self.adopted, self.latest
        )
        if now != self._saved:
            self._saved = now
            self.outbox.store(SaveConfiguration(now.pack()))
