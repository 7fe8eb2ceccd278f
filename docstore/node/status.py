"""The status of the node and of the group: the pages under /core.

All of the functions only read, except `resync`. They read the replica's state between two events,
which is safe because both run in one thread.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from docstore import __version__
from docstore.documents.view import ReplicaView
from docstore.errors import NotFound, Unavailable
from docstore.maintenance.upkeep.resync import Resync
from docstore.model.fences import fences_of
from docstore.model.paths import partition_key
from docstore.model.slots import slot_of
from docstore.model.stats import metrics_of
from docstore.node.members.group import GroupConfiguration, warnings_of
from docstore.ownership.by_hash import member_points, ranking
from docstore.ownership.configuration import Configuration
from docstore.runtime.links.rpc import Rpc
from docstore.storage.store import Newest, Store
from docstore.wire.link_messages import PROTOCOL
from docstore.wire.requests import DescribeCopy, DigestSlots

Json = dict[str, Any]


class StatusPages:
    """Reads the node for its administrative pages."""

    def __init__(
        self,
        view: ReplicaView,
        store: Store,
        rpc: Rpc,
        resync: Resync,
        members: Callable[[], list[Json]],
        group: GroupConfiguration,
    ) -> None:
        self._view = view
        self._store = store
        self._rpc = rpc
        self._resync = resync
        self._members = members
        self._group = group
        self._slots = view.members.configuration.slots
        rpc.serve(DescribeCopy, self._copy_here)

    @property
    def configuration(self) -> Configuration:
        return self._view.members.configuration

    # One document

    async def explain(self, link: str, timeout_s: float) -> Json:
        """Return the owner and replicas of a document, and the order of succession."""
        slot = slot_of(link, self._slots)
        placement = self._view.members.placement
        points = {
            member.id: member_points(member.id, placement.points_per_node)
            for member in self.configuration.members
        }
        replicas = placement.replicas(slot)
        owner = self._view.owners.owner_of(slot)
        order = [
            {"id": member, "distance": f"{gap:064x}"}
            for gap, member in ranking(slot, self._slots, points)
        ]
        successor = next(
            (each for each in replicas if each != owner and self._view.members.may_own(each)), None
        )
        held = await asyncio.gather(*(self._held(each, slot, link, timeout_s) for each in replicas))
        return {
            "documentSelfLink": link,
            "documentPartitionKey": partition_key(link),
            "slot": slot,
            "slots": self._slots,
            "ranking": order,
            "owner": owner,
            "preferredOwner": replicas[0],
            "takesOverNext": successor,
            "replicas": [
                {"id": member, **holding} for member, holding in zip(replicas, held, strict=True)
            ],
        }

    async def _held(self, member: str, slot: int, link: str, timeout_s: float) -> Json:
        try:
            return await self._rpc.call(member, DescribeCopy(slot, link), timeout_s)
        except Unavailable as error:
            return {"error": str(error)}

    async def _copy_here(self, asked: DescribeCopy) -> Json:
        log = self._view.logs.get(asked.slot)
        if log is None:
            return {"version": None}
        [result] = await self._store.read([Newest(asked.slot, asked.link, log.end)])
        row = result[0] if isinstance(result, list) and result else None
        return {
            "version": row.version if row else None,
            "deleted": row.deleted if row else None,
            "fences": dict(fences_of(row)),
            "end": log.end,
            "decided": log.decided,
            "promised": list(log.promised),
            "status": "full" if log.full else "faulty",
        }

    # Pages

    def node_group(self) -> Json:
        members = self._members()
        page: Json = {
            "documentSelfLink": "/core/node-groups/default",
            "kind": "NodeGroupState",
            "members": members,
            "configuration": self._group.page(members),
            "convergence": "CONVERGED" if self.group_available() else "CONVERGING",
        }
        if warnings := warnings_of(self.configuration):
            page["warnings"] = warnings
        return page

    def group_available(self) -> bool:
        """Say whether a majority of the members is connected and every live member is linked."""
        return self._view.members.is_whole

    def selector(self, name: str) -> Json | None:
        """Return a node selector's table and shares, None for an unknown name."""
        factors = {
            "default": self.configuration.replication_factor,
            "default-1x": 1,
            "default-3x": 3,
        }
        if name not in factors:
            return None
        placement = self._view.members.placement
        members = len(self.configuration.members)
        copies, kept = (min(factors[each] or members, members) for each in (name, "default"))
        owners = [self._view.owners.owner_of(slot) for slot in range(self._slots)]
        preferred = Counter(placement.replicas(slot)[0] for slot in range(self._slots))
        owned = Counter(owner for owner in owners if owner)
        return {
            "documentSelfLink": f"/core/node-selectors/{name}",
            "kind": "NodeSelectorState",
            "replicationFactor": copies,
            "keepsDocuments": copies == kept,
            "slots": self._slots,
            "pointsPerNode": placement.points_per_node,
            "shares": {
                member.id: {
                    "preferred": preferred[member.id],
                    "owned": owned[member.id],
                    "share": owned[member.id] / self._slots,
                }
                for member in self.configuration.members
            },
            "table": [
                {"slot": slot, "owner": owner, "replicas": list(placement.replicas(slot)[:copies])}
                for slot, owner in enumerate(owners)
            ],
        }

    def ready(self) -> tuple[bool, str]:
        """Say whether every slot has an open owner that this node reaches; if not, why."""
        if self._group.has_left:
            return False, "this node is not a member of the group any more"
        if self._view.members.lacks_quorum:
            return False, "a majority of the members is not connected"
        if ownerless := self._view.owners.vacant:
            return False, f"{ownerless} of {self._slots} slots have no open owner yet"
        return True, ""

    def describe(self) -> Json:
        """Return the replica's part of the management page."""
        return {
            "id": self._view.members.me,
            "version": __version__,
            "protocol": PROTOCOL,
            "slots": {
                "held": len(self._view.logs),
                "owned": len(self._view.owners.owned()),
                "faulty": self._slots_faulty(),
            },
            "replicationLag": dict(self._view.replication.lag()),
            "compaction": self.compaction(),
            "counters": dict(sorted(self._view.counters.items())),
        }

    def compaction(self) -> Json:
        """Return the instant of the last compaction, and this node's progress."""
        before_us, slots_left = self._view.compaction
        return {
            "kind": "CompactStatus",
            "beforeMicros": before_us,
            "slotsLeft": slots_left,
            "rowsPassed": self._view.counters["trimmed"],
        }

    def metrics(self) -> Mapping[str, float]:
        values = {f"docstore_protocol_{k}_total": float(v) for k, v in self._view.counters.items()}
        for peer, rows in self._view.replication.lag().items():
            values[f'docstore_replication_lag_rows{{peer="{peer}"}}'] = float(rows)
        values.update(metrics_of(self._view.measures_of_factories))
        values["docstore_slots_owned"] = float(len(self._view.owners.owned()))
        values["docstore_slots_faulty"] = float(self._slots_faulty())
        values["docstore_documents_in_conflict"] = float(self._view.documents_in_conflict)
        return values

    def _slots_faulty(self) -> int:
        return sum(not log.full for log in self._view.logs.values())

    # Resync and digests

    async def resync(
        self, link: str | None, *, is_factory: bool, timeout_s: float, slots_per_second: float
    ) -> str:
        if link is None or is_factory:
            return self._resync.start(link, range(self._slots), slots_per_second)
        slot = slot_of(link, self._slots)
        owner = self._view.owners.owner_of(slot)
        if owner is None:
            raise Unavailable(f"slot {slot} has no owner now")
        holding = await self._rpc.call(owner, DescribeCopy(slot, link), timeout_s)
        if holding["version"] is None:
            raise NotFound(f"there is no document {link}")
        return self._resync.start(link, [slot])

    async def digests(self, timeout_s: float) -> Json:
        """Return node -> slot -> [end, links, digest] of the slots in use."""
        pages: Json = {}
        every = list(range(self._slots))
        for member in self._view.members.configuration.names:
            try:
                answer = await self._rpc.call(member, DigestSlots(every), timeout_s)
            except Unavailable:
                continue
            pages[member] = {
                str(slot): entry for slot, *entry in map(list[Any], answer) if entry[0] > 0
            }
        return pages
