"""Who belongs to the group, and how the group is founded.

A configuration names the members as pairs (node id, store id): a node whose disk was replaced
is not the member that promised. It is founded from an explicit list, never from discovery: each
founder tells the others its store id, and the group exists on a node once that node has stored
the configuration with all of them. The cluster's id is a hash of the list, so that two groups
can never speak to each other by accident.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack

from docstore.ownership.by_hash import Placed, Placement, place


@dataclass(frozen=True, slots=True)
class Founder:
    """One entry of the bootstrap list: a node id and where its clients reach it."""

    id: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class MemberEntry:
    """One member: the node, its disk, where it is, and whose fate it shares."""

    id: str
    store_id: str
    host: str
    port: int
    zone: str = ""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The group as decided. `id` grows by one with each change; the founders' is 1."""

    id: int
    cluster_id: str
    slots: int
    points_per_node: int
    replication_factor: int | None
    members: tuple[MemberEntry, ...]

    def member(self, node_id: str) -> MemberEntry | None:
        """Return the member of that id, None if there is none."""
        return next((member for member in self.members if member.id == node_id), None)

    def placement(self) -> Placement:
        """Return where every slot lives under this configuration."""
        return place(
            [Placed(member.id, member.zone) for member in self.members],
            slots=self.slots,
            points_per_node=self.points_per_node,
            replication_factor=self.replication_factor,
        )

    def pack(self) -> bytes:
        """Return the configuration as stored and as told to other nodes."""
        members = [(m.id, m.store_id, m.host, m.port, m.zone) for m in self.members]
        packed: bytes = msgpack.packb(
            (
                self.id, self.cluster_id, self.slots, self.points_per_node,
                self.replication_factor, members,
            )
        )  # fmt: skip
        return packed


def unpack_configuration(packed: bytes) -> Configuration:
    """Return the configuration from its bytes; raises ValueError or TypeError if malformed."""
    fields: Sequence[Any] = msgpack.unpackb(packed)
    number, cluster_id, slots, points_per_node, replication_factor, entries = fields
    members = tuple(MemberEntry(*entry) for entry in entries)
    return Configuration(number, cluster_id, slots, points_per_node, replication_factor, members)


def cluster_id_of(founders: Sequence[Founder]) -> str:
    """Return the identity of the group that this bootstrap list founds; any order."""
    text = ",".join(sorted(f"{each.id}=http://{each.host}:{each.port}" for each in founders))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def found(
    founders: Sequence[Founder],
    stores: Mapping[str, tuple[str, str]],
    *,
    slots: int,
    points_per_node: int,
    replication_factor: int | None,
) -> Configuration | None:
    """Return configuration 1, or None while a founder's disk is not known.

    stores: founder id -> (store id, zone). The same on every founder.
    """
    if any(founder.id not in stores for founder in founders):
        return None
    members = tuple(
        MemberEntry(each.id, stores[each.id][0], each.host, each.port, stores[each.id][1])
        for each in sorted(founders, key=lambda founder: founder.id)
    )
    return Configuration(
        1, cluster_id_of(founders), slots, points_per_node, replication_factor, members
    )
