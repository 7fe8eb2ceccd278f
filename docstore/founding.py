"""How a node comes to know its group: stored, told by a peer, or founded with the others.

A founder shows its store id in every Hello. When it has seen those of all founders it stores
configuration 1 and takes part. A node whose disk is empty but whose id is in the configuration
of a peer with another store id is not the member that promised: it is a learner, holds nothing,
counts for nothing, and says so until an operator replaces the member (rule M4).
"""

import asyncio

import structlog

from docstore.config import Config
from docstore.protocol.configuration import (
    Configuration,
    Founder,
    cluster_id_of,
    found,
    unpack_configuration,
)
from docstore.storage.store import Recovered, SaveConfiguration, Store
from docstore.wire import PROTOCOL, Hello

log = structlog.get_logger("docstore.founding")


class Founding:
    """What this node knows of its group before it can take part, and what it shows of itself."""

    def __init__(self, config: Config, me: str, recovered: Recovered) -> None:
        self._config = config
        self._me = me
        self._recovered = recovered
        stored = recovered.configuration
        self.current: Configuration | None = unpack_configuration(stored) if stored else None
        self._founders = self._bootstrap()
        self._stores = {me: (recovered.store_id, config.zone)}
        self._changed = asyncio.Event()
        self._learner = False
        if self.current is not None:
            self._check_identity(self.current)

    def _bootstrap(self) -> tuple[Founder, ...]:
        alone = (Founder(self._me, self._config.listen_host, self._config.listen_port),)
        return tuple(self._config.bootstrap) or alone

    @property
    def cluster_id(self) -> str:
        """Return the identity of the group that this node belongs to or founds."""
        return self.current.cluster_id if self.current else cluster_id_of(self._founders)

    def addresses(self) -> dict[str, tuple[str, int]]:
        """Return where the peers listen for links: the port after the clients' port."""
        if self.current is not None:
            known = [(member.id, member.host, member.port) for member in self.current.members]
        else:
            known = [(founder.id, founder.host, founder.port) for founder in self._founders]
        return {peer: (host, port + 1) for peer, host, port in known if peer != self._me}

    def hello(self, peer: str) -> Hello:
        """Return how this node introduces itself."""
        packed = self.current.pack() if self.current else b""
        return Hello(
            PROTOCOL, self.cluster_id, self._me, self._recovered.store_id,
            self._recovered.boot, peer, self._config.zone, packed,
        )  # fmt: skip

    def admit(self, hello: Hello) -> str | None:
        """Say why a peer is refused; learn from it what we lack."""
        if hello.cluster_id != self.cluster_id:
            return "another cluster"
        if hello.receiver not in ("", self._me):
            return f"it looks for {hello.receiver}"
        if self.current is None:
            return self._learn(hello)
        member = self.current.member(hello.sender)
        if member is None:
            return "not a member"
        if member.store_id != hello.store_id:
            return "not the disk that the configuration names: a learner"
        return None

    def _learn(self, hello: Hello) -> str | None:
        if hello.sender not in {founder.id for founder in self._founders}:
            return "not a founder"
        if hello.configuration:
            told = unpack_configuration(hello.configuration)
            mine = told.member(self._me)
            if mine is None or mine.store_id != self._recovered.store_id:
                if not self._learner:
                    log.warning("this disk is not the one the group was founded with: a learner")
                self._learner = True
                return "this node is a learner"
            self.current = told
        self._stores[hello.sender] = (hello.store_id, hello.zone)
        self._changed.set()
        return None

    def _check_identity(self, stored: Configuration) -> None:
        mine = stored.member(self._me)
        self._learner = mine is None or mine.store_id != self._recovered.store_id

    async def configuration(self, store: Store) -> Configuration:
        """Return the group's configuration once this node may take part; it is then stored."""
        if self.current is not None and self._recovered.configuration and not self._learner:
            return self.current
        while True:
            if not self._learner:
                decided = self.current or self._found()
                if decided is not None:
                    await store.commit([SaveConfiguration(decided.pack())])
                    self.current = decided
                    return decided
            self._changed.clear()
            await self._changed.wait()

    def _found(self) -> Configuration | None:
        return found(
            self._founders,
            self._stores,
            slots=self._config.slots,
            points_per_node=self._config.points_per_node,
            replication_factor=self._config.replication_factor,
        )

    def why_not(self) -> str:
        """Say what keeps this node from taking part."""
        if self._learner:
            return "a learner: this disk is not the one that the group was founded with"
        missing = sorted({each.id for each in self._founders} - set(self._stores))
        return f"waiting for founders {', '.join(missing)}" if missing else "joining the group"
