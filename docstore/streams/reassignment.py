"""Reassignment: replicas move to other nodes, one at a time, at no time with less safety.

A new replica is filled and joins the live replica set; only then is the replica that it replaces
removed. If that replica leads, it yields first. The document names the moves under way (`adding`,
`leaving`), so that a later controller continues them. A move is needed when a node leaves the
group, or when an operator asks for other replicas.
"""

from collections.abc import Sequence
from dataclasses import replace

from docstore.machines.core import NEVER
from docstore.ownership.by_lag import LED, without
from docstore.streams.assignment import order_of
from docstore.streams.controlled_partition import ControlledPartition
from docstore.streams.controller import Controller
from docstore.streams.core import Core
from docstore.streams.replica_set import ReplicaSet
from docstore.wire.streams_messages import Yield


class Reassignment:
    """Moves replicas of the partitions that this controller governs."""

    def __init__(self, core: Core, controller: Controller) -> None:
        self._core = core
        self._controller = controller
        self._wanted: dict[str, tuple[str, ...]] = {}
        """Link -> the replicas that an operator wants."""
        self._open: dict[str, ControlledPartition] = {}
        """Partitions with a move under way or needed."""
        self._by_slot: dict[int, dict[str, ControlledPartition]] = {}
        self._asked_at: dict[str, float] = {}
        """Link -> when the leader was last sent what a move under way needs of it."""
        self._group: tuple[tuple[str, ...], frozenset[str]] = ((), frozenset())

    def blocks(self, slot: int) -> bool:  # Tests replace this.
        """Say whether a partition with its document in this slot still needs a node that leaves.

        A dead node is not needed: records that only that node had cannot be read in any case (rule
        RM1).
        """
        if not self._controller.knows_all:
            return True
        view = self._core.view
        return any(
            view.is_alive(node)
            for known in self._by_slot.get(slot, {}).values()
            for node in self._gone(known.found)
        )

    def want(self, known: ControlledPartition, replicas: tuple[str, ...]) -> str:
        """Begin to move a partition to these replicas.

        Returns "", or the reason why it is not possible.
        """
        members = set(self._core.view.members) - self._core.view.leavers
        if not replicas or len(set(replicas)) < len(replicas) or not members.issuperset(replicas):
            given = ", ".join(replicas)
            return f"replicas must be different members of the group; got {given or 'none'}"
        if len(replicas) < known.found.min_in_sync:
            return f"at least {known.found.min_in_sync} replicas are needed"
        self._wanted[known.link] = replicas
        self.entered(known)
        return ""

    def entered(self, known: ControlledPartition) -> None:
        """Take a new version of a document."""
        found = known.found
        self._by_slot.setdefault(self._core.view.slot_of(known.link), {})[known.link] = known
        if self._wanted.get(known.link) == found.replicas and not found.leaving:
            del self._wanted[known.link]
        if found.adding or found.leaving or known.link in self._wanted or self._gone(found):
            self._open[known.link] = known
        else:
            self._open.pop(known.link, None)

    def forgotten(self, known: ControlledPartition) -> None:
        """Drop a partition that this node no longer governs."""
        self._open.pop(known.link, None)
        self._wanted.pop(known.link, None)
        self._by_slot.get(self._core.view.slot_of(known.link), {}).pop(known.link, None)

    def _gone(self, found: ReplicaSet) -> list[str]:
        """Return the replicas on nodes that are leaving the group, or have left it."""
        return [node for node in found.replicas if self._leaves(node)]

    def _leaves(self, node: str) -> bool:
        view = self._core.view
        return node in view.leavers or node not in view.members

    def tick(self) -> None:
        """Advance a few of the moves."""
        view = self._core.view
        if (view.members, view.leavers) != self._group:
            self._group = (view.members, view.leavers)
            for known in self._controller.governed.values():
                self.entered(known)
        under_way = 0
        for known in list(self._open.values()):
            is_begun = bool(known.found.adding or known.found.leaving)
            if is_begun or under_way < self._core.config.transfers.transfers_max:
                under_way += 1
                self._go_on(known)

    def _go_on(self, known: ControlledPartition) -> None:
        found = known.found
        if known.is_updating or found.resolution not in LED:
            return
        if not (found.adding or found.leaving):
            after = self._begun(known)
        elif not self._is_filled(found):
            after = self._given_up(known)
            if after is None and self._is_due(known):
                # The leader adds the new replica to the live replica set; an earlier message may
                # be lost.
                self._controller.notify(known, found.leader)
        elif found.leader in found.leaving:
            self._make_way(known)
            return
        else:
            after = self._left_out(found, found.leaving)
        if after is not None and after != found:
            self._controller.update(known, after)

    def _is_filled(self, found: ReplicaSet) -> bool:
        live = {node for node, _ in found.lrs}
        enough = len(live - set(found.leaving)) >= min(found.min_in_sync, len(live))
        return live.issuperset(found.adding) and enough and bool(live - set(found.leaving))

    def _given_up(self, known: ControlledPartition) -> ReplicaSet | None:
        """Return the document after giving up a replica that will never be filled (rule RM2).

        Returns None while it may still be filled. A replica whose data counts is removed as others
        are.
        """
        found = known.found
        if len(found.replicas) - len(found.leaving) < found.min_in_sync and not found.adding:
            return self._replaced(known)
        view, counted = self._core.view, {node for node, _ in (*found.lrs, *found.elr)}
        if any(node not in counted and not view.is_alive(node) for node in found.adding):
            return self._left_out(found, found.adding)
        if any(map(self._leaves, found.adding)):
            return replace(found, adding=(), leaving=found.adding)
        return None

    def _replaced(self, known: ControlledPartition) -> ReplicaSet:
        """Return the document with a substitute for a replica that leaves too few behind.

        If its node is in the group again, it stays, and no substitute is needed.
        """
        found = known.found
        if not any(map(self._leaves, found.leaving)):
            return replace(found, leaving=())
        adding = tuple(self._stand_ins(known, list(found.leaving))[:1])
        return replace(found, replicas=(*found.replicas, *adding), adding=adding)

    def _begun(self, known: ControlledPartition) -> ReplicaSet | None:
        """Return the document that names the replica to add next, and the one to remove for it."""
        found = known.found
        wanted = self._wanted.get(known.link)
        if wanted is not None and any(map(self._leaves, wanted)):
            del self._wanted[known.link]
            wanted = None
        if wanted is not None:
            coming = [node for node in wanted if node not in found.replicas]
            if not all(map(self._core.view.is_alive, coming)):
                return None
            going = [node for node in found.replicas if node not in wanted]
            if not coming and not going:
                return replace(found, replicas=wanted)
        else:
            going = self._gone(found)
            coming = self._stand_ins(known, going)
        adding, leaving = tuple(coming[:1]), tuple(going[:1])
        if not adding and len(found.replicas) == len(leaving):
            return None  # The last replica has the only data.
        self._core.counters["reassignments"] += 1
        return replace(found, replicas=(*found.replicas, *adding), adding=adding, leaving=leaving)

    def _stand_ins(self, known: ControlledPartition, going: list[str]) -> list[str]:
        """Return the nodes that may take a replica; first those in a zone without one."""
        found, view = known.found, self._core.view
        members = [node for node in view.members if node not in view.leavers]
        zones = {view.zones.get(node, "") for node in found.replicas if node not in going}
        free = [
            node
            for node in order_of(known.link, members)
            if node not in found.replicas and view.is_alive(node)
        ]
        return sorted(free, key=lambda node: view.zones.get(node, "") in zones)

    def _left_out(self, found: ReplicaSet, nodes: Sequence[str]) -> ReplicaSet:
        """Return the document at the end of a move, without the replicas on these nodes."""
        gone = [copy for copy in (*found.lrs, *found.elr) if copy[0] in nodes]
        lrs, elr = without(found.lrs, found.elr, gone, found.min_in_sync)
        return replace(
            found,
            replicas=tuple(node for node in found.replicas if node not in nodes),
            adding=(),
            leaving=(),
            lrs=lrs,
            elr=tuple(copy for copy in elr if copy not in gone),
        )

    def _make_way(self, known: ControlledPartition) -> None:
        if self._is_due(known):
            self._core.post(known.found.leader, Yield, (known.name, known.found.epoch, ""))

    def _is_due(self, known: ControlledPartition) -> bool:
        """Say whether to send the leader a message again, as this move waits for it."""
        now, pause_s = self._core.now, 2 * self._core.config.transfers.yield_s
        if now - self._asked_at.get(known.link, NEVER) < pause_s:
            return False
        self._asked_at[known.link] = now
        return True
