"""What one node has stored of the register: its vote, and the newest configuration it was given.

A node *uses* a configuration only once it is decided; votes and majorities are counted by the
latest one that it has stored, decided or not. Nothing is said of either before it is on disk.
"""

from collections.abc import Callable, Collection
from random import Random

from docstore.documents.core import Core
from docstore.ownership import quorum
from docstore.ownership.by_vote import Recency, Role, Times, Voter
from docstore.ownership.configuration import Configuration, Registered
from docstore.storage.store import SaveConfiguration


class StoredRegister:
    """One node's copy of the register; its election, its replication and what is decided of it."""

    def __init__(
        self, core: Core, stored: Registered, rng: Random, use: Callable[[Configuration], None]
    ) -> None:
        """use: goes over to a configuration that is decided."""
        self.core = core
        self.outbox = core.outbox
        self._rng = rng
        self._use = use
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
            times=Times(config.leadership.heartbeat_interval_s, config.leadership.owner_timeout_s),
            now=self.core.now,
        )

    @property
    def leads(self) -> bool:
        """Say whether this node leads the register."""
        return self.voter.role is Role.LEADER

    @property
    def votes(self) -> bool:
        """Say whether this node has a vote."""
        return any(self.core.me in voters for voters in self.latest.voting)

    @property
    def recency(self) -> Recency:
        """Return how recent this copy is."""
        return Recency(self.adopted, self.latest.id)

    @property
    def is_decided(self) -> bool:
        """Say whether the latest configuration is the one in use: nothing is under way."""
        return self.latest.id == self.core.configuration.id

    def is_quorum(self, heard: Collection[str]) -> bool:
        """Say whether these are majorities of the voters."""
        return quorum.is_quorum(heard, self.latest.voting)

    def other_voters(self) -> list[str]:
        """Return whom the register is shared with."""
        return sorted({each for voters in self.latest.voting for each in voters} - {self.core.me})

    def observe(self, generation: int) -> None:
        """Follow a generation that is later than ours."""
        self.voter.observe(generation, self.core.now)
        self.save()

    def learn(self, decided: Configuration) -> None:
        """Go over to a configuration that is decided, unless we are there or beyond."""
        if decided.id <= self.core.configuration.id:
            return
        if decided.id > self.latest.id:
            # Decided by others: whatever we have stored under any generation is older.
            self.latest = decided
        self._use(decided)
        self.save()

    def save(self) -> None:
        """Let what changed join the batch that forms."""
        voter = self.voter
        now = Registered(
            self.core.configuration, voter.generation, voter.voted_for, self.adopted, self.latest
        )
        if now != self._saved:
            self._saved = now
            self.outbox.store(SaveConfiguration(now.pack()))
