"""How a node learns its group: from its disk, from a member, or by founding it with other nodes.

A founder shows its store id in every Hello. A founder that has seen the store ids of all founders
stores configuration 1 and takes part. A node that joins has no founders: it belongs to the group
whose member dials it with a configuration that names its disk.

If a configuration has this node's id with another disk, this node is not the member that made the
promises. Its disk is unknown, so the node stores nothing and counts for nothing until an operator
has the member replaced (rule M4).
"""

import asyncio
import secrets
from collections.abc import Callable

import structlog

from docstore.config import Config
from docstore.documents.membership.reconfigure import founding_writes
from docstore.errors import BadConfig, DiskFull
from docstore.maintenance.restored import Restored, insist_on_founding
from docstore.model.address import Address
from docstore.ownership.configuration import (
    NODE_ID,
    Configuration,
    Founder,
    cluster_id_of,
    found,
    is_node_id,
    unpack_configuration,
    unpack_registered,
)
from docstore.storage.store import Recovered, Store
from docstore.wire.link_messages import FIRST_PROTOCOL, PROTOCOL, Hello

ROOM_PAUSE_S = 0.5
"""Seconds between two attempts to store the configuration on a full disk."""

log = structlog.get_logger("docstore.node.members.founding")


class Founding:
    """A node's knowledge of its group before it takes part, and its own Hello to peers."""

    def __init__(
        self,
        config: Config,
        me: str,
        recovered: Recovered,
        *,
        learnt: Callable[[bytes], None],
        outdated: Callable[[int], None],
        restored: Restored | None = None,
    ) -> None:
        """learnt: called with a member's configuration that is later than this node's.

        outdated: called when a peer has met a later start of this node's disk than this one.
        restored: the backup from which the disk was made, None for a disk that began empty. Raises
        BadConfig.
        """
        self._config = config
        self._me = me
        self._recovered = recovered
        stored = recovered.configuration
        self.current: Configuration | None = unpack_registered(stored).decided if stored else None
        self._was_stored = self.current is not None
        if self.current is not None:
            self._insist_on_founded(self.current)
        if restored is not None and not self._was_stored:
            insist_on_founding(config, restored)
            log.info("this disk was restored", backup=restored.backup, group=restored.group)
        self._origin = restored.backup if restored else ""
        self._stored_protocol = restored.stored_protocol if restored else FIRST_PROTOCOL
        self._learnt = learnt
        self._outdated = outdated
        self._life = secrets.randbits(63)
        self._lives: dict[str, tuple[int, int]] = {}
        """Store id -> (boot, life): the latest start that this process has met."""
        self._founders = self._bootstrap()
        self._stores = {me: (recovered.store_id, config.zone)}
        self._changed = asyncio.Event()
        self._is_unknown_disk = False
        self._has_room = True

    def _insist_on_founded(self, configuration: Configuration) -> None:
        """Raise BadConfig if a setting differs from the value that the group was founded with."""
        for key in sorted(self._config.founded):
            said, has = getattr(self._config, key), getattr(configuration, key)
            if said != has:
                raise BadConfig(
                    f"{key}: the group was founded with {has or 'all'}, which cannot change to"
                    f" {said or 'all'}: leave the setting out, or found another group"
                )
        mine = configuration.member(self._me)
        if mine is not None and self._config.zone not in ("", mine.zone):
            log.warning("the zone of a member cannot change", zone=mine.zone)

    def _bootstrap(self) -> tuple[Founder, ...]:
        if self._config.join or self._config.standby:
            return ()
        return self._config.bootstrap or (Founder(self._me, *self._config.advertise),)

    @property
    def cluster_id(self) -> str:
        """Return the id of the group that this node belongs to or founds, "" for none."""
        if self.current is not None:
            return self.current.cluster_id
        return cluster_id_of(self._founders, self._origin) if self._founders else ""

    @property
    def scheme(self) -> str:
        return self._config.tls.scheme

    @property
    def has_group(self) -> bool:
        return self.current is not None

    def others(self) -> dict[str, Address]:
        if self.current is not None:
            return self.current.others(self._me)
        return {each.id: each.address for each in self._founders if each.id != self._me}

    def request(self) -> dict[str, object]:
        """Return this node's request to a group that it wants to join."""
        config = self._config
        member = {
            "id": self._me,
            "storeId": self._recovered.store_id,
            "address": config.url,
            "zone": config.zone,
            "observer": config.observer,
        }
        if config.replaces:
            return {"kind": "ReplaceMemberRequest", "id": config.replaces, "member": member}
        return {"kind": "AddMemberRequest", "member": member}

    def hello(self, peer: str) -> Hello:
        packed = self.current.pack() if self.current else b""
        return Hello(
            PROTOCOL, self.cluster_id, self._me, self._recovered.store_id,
            self._recovered.boot, peer, self._config.zone, packed, self._life, self._seen(peer),
        )  # fmt: skip

    def _seen(self, peer: str) -> tuple[str, int, int]:
        member = self.current.member(peer) if self.current else None
        if member is None:
            return ("", 0, 0)
        return (member.store_id, *self._lives.get(member.store_id, (0, 0)))

    def admit(self, hello: Hello) -> str | None:
        """Return the reason for refusing a peer, None to accept it; learn the group from it.

        A disk that was restored from an older copy has forgotten promises. To detect such a copy,
        every start counts itself and draws a random number. A node that has met a later start of
        the same disk, or the same start with another number, refuses the peer and names the reason.
        """
        disk, boot, life = hello.seen
        if disk == self._recovered.store_id and _is_later((boot, life), self._own_life):
            self._outdated(boot)
            return "our own disk is an older copy"
        known = self._lives.get(hello.store_id, (0, 0))
        if _is_later(known, (hello.boot, hello.life)):
            return "an older copy of its disk"
        why_not = self._judge(hello)
        if why_not is None:
            self._lives[hello.store_id] = (hello.boot, hello.life)
        return why_not

    @property
    def _own_life(self) -> tuple[int, int]:
        return (self._recovered.boot, self._life)

    def _judge(self, hello: Hello) -> str | None:
        if self.cluster_id and hello.cluster_id != self.cluster_id:
            return "another cluster"
        if hello.receiver not in ("", self._me):
            return f"it expects node {hello.receiver} here"
        told = unpack_configuration(hello.configuration) if hello.configuration else None
        newest = max((each.stored_protocol for each in (told, self.current) if each), default=0)
        if hello.protocol < newest:  # Rule M7.
            return f"it speaks protocol {hello.protocol}, the group stores data of {newest}"
        if self.current is None:
            return self._learn(hello, told)
        if told is not None and told.id > self.current.id:
            self._learnt(hello.configuration)
        member = self.current.member(hello.sender)
        if member is None:
            return "not a member"
        if member.store_id != hello.store_id:
            return "not the disk that the configuration names: unknown"
        return None

    def _learn(self, hello: Hello, told: Configuration | None) -> str | None:
        founders = {founder.id for founder in self._founders}
        if told is not None:
            sender, mine = told.member(hello.sender), told.member(self._me)
            if sender is None or sender.store_id != hello.store_id:
                return "not a member of the group that it names"
            if mine is None or mine.store_id != self._recovered.store_id:
                if not self._is_unknown_disk and founders:
                    log.warning("this disk is not the one the group was founded with")
                self._is_unknown_disk = bool(founders)
                return "this node is no member of it"
            self.current = told
        elif hello.sender not in founders:
            return "not a founder"
        self._stores[hello.sender] = (hello.store_id, hello.zone)
        self._changed.set()
        return None

    async def configuration(self, store: Store) -> Configuration:
        """Return the group's configuration once this node may take part and has stored it.

        Raises BadConfig.
        """
        if self._was_stored and self.current is not None:
            return self.current
        while True:
            decided = self.current or (None if self._is_unknown_disk else self._found())
            if decided is not None:
                self._insist_on_founded(decided)
                await self._stored(store, decided)
                self.current = decided
                return decided
            self._changed.clear()
            await self._changed.wait()

    async def _stored(self, store: Store, decided: Configuration) -> None:
        """Store the configuration, and wait for room on a full disk."""
        while True:
            try:
                await store.commit(founding_writes(decided, self._me, self._recovered.slots))
            except DiskFull:
                self._has_room = False
                await asyncio.sleep(ROOM_PAUSE_S)
            else:
                self._has_room = True
                return

    def _found(self) -> Configuration | None:
        if not self._founders:
            return None
        return found(
            self._founders,
            self._stores,
            slots=self._config.slots,
            points_per_node=self._config.points_per_node,
            replication_factor=self._config.replication_factor,
            reads=self._config.reads,
            origin=self._origin,
            stored_protocol=self._stored_protocol,
        )

    def why_not(self) -> str:
        """Return the reason why this node cannot take part yet."""
        if self._is_unknown_disk:
            return "an unknown disk: it is not a member's; have it replaced"
        if not self._has_room:
            return "no room to store the group's configuration: the disk is full"
        if not self._founders:
            return "waiting to be taken into a group"
        missing = sorted({each.id for each in self._founders} - set(self._stores))
        return f"waiting for founders {', '.join(missing)}" if missing else "joining the group"


def identity(config: Config, recovered: Recovered) -> str:
    """Return this node's id: configured, stored, or made now and stored. Raises BadConfig."""
    path = config.data / "node-id"
    stored = path.read_text(errors="replace").strip() if path.exists() else ""
    if stored and not is_node_id(stored):
        raise BadConfig(f"node_id: {path} must contain {NODE_ID}; got {stored[:80]!r}")
    wanted = config.node_id or stored or f"n-{recovered.store_id[:8]}"
    if stored and stored != wanted:
        raise BadConfig(f"node_id: this data directory belongs to node {stored}, not {wanted}")
    if not stored:
        path.write_text(wanted + "\n")
    return wanted


def _is_later(known: tuple[int, int], met: tuple[int, int]) -> bool:
    """Say whether the known start of a disk proves that the start met is of an older copy."""
    return known[0] > met[0] or (known[0] == met[0] and known[1] not in (0, met[1]))
