"""Configurations: the members of the group, how it is founded, and how it changes.

A configuration names the members as pairs (node id, store id): a node whose disk was replaced
is not the member that promised. The first is founded from an explicit list, never from
discovery: each founder tells the others its store id, and the group exists on a node once that
node has stored the configuration with all of them. The cluster's id is a hash of the list, so
that two groups can never speak to each other by accident.

A change takes three steps, each a configuration of its own: learning (the next members are
filled while the old ones serve), joint (majorities of both are needed), stable again.

Source: joint consensus (Ongaro and Ousterhout, 2014, section 6), with learners in front of it
(Ongaro's thesis, 4.2.1); chosen by the register of `documents/membership/register.py`, used by
every slot.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

import msgpack

from docstore.errors import StoreBroken
from docstore.model.address import Address
from docstore.ownership.by_hash import Placed, Placement, place
from docstore.ownership.voters import VOTERS_MAX, chosen
from docstore.wire.link_messages import FIRST_PROTOCOL, PROTOCOL

LOST = "!"
"""Suffix of a member whose disk is lost: it still counts, and never answers."""

_NODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
NODE_ID = "1 to 64 letters, digits, dots, hyphens and underscores, the first a letter or digit"


def is_node_id(text: str) -> bool:
    """Say whether a node id is valid: see `NODE_ID`. Founding and joining take the same ids."""
    return _NODE_ID.match(text) is not None


class Stage(StrEnum):
    STABLE = "stable"
    LEARNING = "learning"
    """The next members receive everything and do not count."""
    JOINT = "joint"
    """Every decision needs majorities of the old and of the next members."""


@dataclass(frozen=True, slots=True)
class Founder:
    """One entry of the bootstrap list: a node id and its HTTP address."""

    id: str
    host: str
    port: int

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)


@dataclass(frozen=True, slots=True)
class MemberEntry:
    """One member: the node, its disk, its HTTP address, and the zone with which it may fail."""

    id: str
    store_id: str
    host: str
    port: int
    zone: str = ""
    votes: bool = True
    """Whether it votes on configurations."""
    lost: bool = False
    """Whether its disk is lost and a new one under the same id is joining."""
    observes: bool = False
    """Whether it is an entry node for clients only, without slots and vote."""

    @property
    def address(self) -> Address:
        """HTTP address; the node itself reports its other ports."""
        return Address(self.host.strip("[]"), self.port)  # An IPv6 address may have brackets.

    @property
    def name(self) -> str:
        return self.id + LOST if self.lost else self.id


@dataclass(frozen=True, slots=True)
class Configuration:
    """The group as decided. `id` grows by one with each step; the founders' is 1."""

    id: int
    cluster_id: str
    slots: int
    points_per_node: int
    replication_factor: int | None
    members: tuple[MemberEntry, ...]
    stage: Stage = Stage.STABLE
    next_members: tuple[MemberEntry, ...] = ()
    """Members after the change; empty without a change."""
    forced: int = 0
    """Number of times that an operator forced a group of a lone survivor: decided writes may be
    lost."""
    reads: str = "confirm"
    """How owners confirm that a value is current: by asking each time, or by a lease."""
    stored_protocol: int = FIRST_PROTOCOL
    """The protocol up to which all members read what protocols add to stored data (rule M7)."""

    def member(self, node_id: str) -> MemberEntry | None:
        """Return the member with this id, as in `next_members` if it is in both lists."""
        every = (*self.next_members, *self.members)
        return next((each for each in every if each.name == node_id), None)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted({each.name for each in (*self.members, *self.next_members)}))

    def others(self, me: str) -> dict[str, Address]:
        """Return node id -> HTTP address of the other nodes."""
        every = (*self.members, *self.next_members)
        return {each.id: each.address for each in every if each.id != me and not each.lost}

    @property
    def sets(self) -> tuple[tuple[str, ...], ...]:
        """The sets of members of which each must give a majority."""
        return self._sets([each.name for each in self.members if not each.observes])

    @property
    def voting(self) -> tuple[tuple[str, ...], ...]:
        """The sets of voters of which each must give a majority for the next configuration."""
        return self._sets([each.name for each in self.members if each.votes], voters=True)

    def _sets(self, present: list[str], *, voters: bool = False) -> tuple[tuple[str, ...], ...]:
        if self.stage is not Stage.JOINT:
            return (tuple(present),)
        coming = [
            each.name for each in self.next_members if (each.votes if voters else not each.observes)
        ]
        return (tuple(present), tuple(coming))

    def placement(self) -> Placement:
        now = self._place(self.members)
        if self.stage is Stage.STABLE:
            return now
        then = self._place(self.next_members)
        return replace(now, next_table=then.table, is_joint=self.stage is Stage.JOINT)

    def _place(self, members: Sequence[MemberEntry]) -> Placement:
        placed = place(
            [Placed(member.id, member.zone) for member in members if not member.observes],
            slots=self.slots,
            points_per_node=self.points_per_node,
            replication_factor=self.replication_factor,
        )
        names = {member.id: member.name for member in members if member.lost}
        if not names:
            return placed
        table = tuple(tuple(names.get(each, each) for each in row) for row in placed.table)
        return replace(placed, table=table)

    def pack(self) -> bytes:
        """Return the configuration as stored and sent to other nodes."""
        packed: bytes = msgpack.packb(
            (
                self.id, self.cluster_id, self.slots, self.points_per_node,
                self.replication_factor, _entries(self.members), self.stage.value,
                _entries(self.next_members), self.forced, self.reads, self.stored_protocol,
            )
        )  # fmt: skip
        return packed


def _entries(members: Sequence[MemberEntry]) -> list[tuple[Any, ...]]:
    return [
        (m.id, m.store_id, m.host, m.port, m.zone, m.votes, m.lost, m.observes) for m in members
    ]


def unpack_configuration(packed: bytes) -> Configuration:
    """Return the configuration from its bytes; raises ValueError or TypeError if malformed."""
    fields: Sequence[Any] = msgpack.unpackb(packed)
    number, cluster_id, slots, points_per_node, factor, entries, stage, coming, *more = fields
    forced, reads, stored_protocol, *_ = more  # A later version may add fields.
    members = tuple(MemberEntry(*entry) for entry in entries)
    following = tuple(MemberEntry(*entry) for entry in coming)
    return Configuration(
        number, cluster_id, slots, points_per_node, factor, members, Stage(stage), following,
        forced, reads, stored_protocol,
    )  # fmt: skip


class Registered(NamedTuple):
    """State of the register on a disk.

    decided: the configuration in use. latest: the newest one stored, under `adopted`.
    """

    decided: Configuration
    generation: int
    voted_for: str
    adopted: int
    latest: Configuration

    def pack(self) -> bytes:
        latest = b"" if self.latest == self.decided else self.latest.pack()
        packed: bytes = msgpack.packb(
            (self.decided.pack(), self.generation, self.voted_for, self.adopted, latest)
        )
        return packed


def first_registered(founded: Configuration) -> Registered:
    """Return the first state of a disk that has just learnt of its group."""
    return Registered(founded, 0, "", 0, founded)


def unpack_registered(packed: bytes) -> Registered:
    """Return the register's state from its bytes; raises ValueError or TypeError if malformed.

    Raises StoreBroken if the group stores what this version cannot read (rule M7).
    """
    fields: Any = msgpack.unpackb(packed)
    decided_packed, generation, voted_for, adopted, latest = fields
    decided = unpack_configuration(decided_packed)
    newest = unpack_configuration(latest) if latest else decided
    needed = max(decided.stored_protocol, newest.stored_protocol)
    if needed > PROTOCOL:
        raise StoreBroken(
            f"the group stores what protocol {needed} has added, and this version reads up to"
            f" {PROTOCOL}: start the version that wrote it, or a later one"
        )
    return Registered(decided, generation, voted_for, adopted, newest)


def cluster_id_of(founders: Sequence[Founder], origin: str = "") -> str:
    """Return the identity of the group that this bootstrap list founds; any order.

    origin: the backup that the disks were restored from (rule M8); "" for empty disks.
    """
    text = ",".join(sorted(f"{each.id}=http://{each.host}:{each.port}" for each in founders))
    if origin:
        text += f" restored from {origin}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def found(
    founders: Sequence[Founder],
    stores: Mapping[str, tuple[str, str]],
    *,
    slots: int,
    points_per_node: int,
    replication_factor: int | None,
    reads: str = "confirm",
    origin: str = "",
    stored_protocol: int = FIRST_PROTOCOL,
) -> Configuration | None:
    """Return configuration 1, or None while a founder's disk is not known.

    stores: founder id -> (store id, zone). origin: see `cluster_id_of`. stored_protocol: of the
    disks' contents. No vote chooses the result, so every founder of every version must compute the
    same. Therefore the first founders by id vote, regardless of zones; the register spreads the
    votes later.
    """
    if any(founder.id not in stores for founder in founders):
        return None
    members = tuple(
        MemberEntry(
            each.id, stores[each.id][0], each.host, each.port, stores[each.id][1],
            votes=number < VOTERS_MAX,
        )
        for number, each in enumerate(sorted(founders, key=lambda founder: founder.id))
    )  # fmt: skip
    return Configuration(
        1, cluster_id_of(founders, origin), slots, points_per_node, replication_factor, members,
        reads=reads, stored_protocol=stored_protocol,
    )  # fmt: skip


def with_votes(members: Sequence[MemberEntry]) -> tuple[MemberEntry, ...]:
    zones = {each.id: each.zone for each in members if not each.observes}
    voters = chosen(zones, [each.id for each in members if each.votes])
    return tuple(replace(each, votes=each.id in voters) for each in members)
