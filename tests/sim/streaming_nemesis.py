"""Faults of streams beside those of nodes: of their disks, their controllers, their topics."""

from collections.abc import Sequence
from typing import Any, Protocol

from docstore.machines.events import DrainAsked
from docstore.storage.store import Status
from docstore.streams.events import CommandAsked
from docstore.streams.replica_set import ReplicaSet, Resolution, link_of
from tests.memory.partition_ledger import PartitionLedger
from tests.sim.companion import Streamer
from tests.sim.nemesis import Nemesis
from tests.sim.streaming_invariants import StreamInvariants

KINDS = (
    "crash", "pause", "cut", "oneway", "isolate", "split", "flap", "storm", "full", "slow",
    "drain", "deaf", "move", "place", "lose_streams", "old_streams", "rot_batch", "recreate",
)  # fmt: skip
ASKED_S = 3.5
"""After this time no operation that a dead node has sent can still be applied."""


class Ground(Protocol):
    """Target of the faults."""

    invariants: StreamInvariants
    streamers: dict[str, Streamer]
    links: list[str]

    def name_of(self, link: str) -> str: ...
    def document(self, link: str) -> ReplicaSet | None: ...
    def controller_of(self, link: str) -> str: ...
    def recreate(self, link: str) -> None: ...
    def drain(self, name: str) -> None: ...


class StreamNemesis(Nemesis):
    """Strikes nodes as for documents, and disks, controllers and topics of streams."""

    def __init__(
        self,
        cluster: Any,
        ground: Ground,
        until: float,
        kinds: Sequence[str],
        beside: Sequence[str],
    ) -> None:
        super().__init__(cluster, until, kinds, beside)
        self._ground = ground
        self._snapshots: dict[str, PartitionLedger] = {}
        self._taken: set[str] = set()
        """Nodes whose disk is being replaced; only `_replace` starts them again."""
        self.rotten: set[tuple[str, str, str]] = set()
        """(partition, node, copy) with a batch that does not match its checksum."""
        if "old_streams" in kinds:
            self._world.after(1.0, self._take_snapshots)

    def _restart(self, name: str) -> None:
        process = self._cluster.processes[name]
        if not process.up and name not in self._taken and process.is_founded:
            self._cluster.start(name)

    def _change(self, name: str) -> None:
        """Change the group, if there are real replicas."""
        if self._cluster.spares:
            self._ground.invariants.checked["changes asked for"] += 1
            super()._change(name)

    def _blank(self, name: str) -> str:
        """Give a node that is to join two empty disks, unless it has them."""
        if self._cluster.processes[name].is_founded:
            super()._blank(name)
            self._lose(name)
        return name

    def _drain(self, name: str) -> None:
        """Drain a node, then stop it, and start it again."""
        process = self._cluster.processes[name]
        if process.up and not process.paused:
            self._ground.drain(name)
            self._ground.streamers[name].feed(DrainAsked())
            self._world.after(self._duration(), self._stop, name, process.life)

    def _deaf(self, name: str) -> None:
        """Cut a leader off from its controller alone."""
        link = self._world.rng.choice(self._ground.links)
        found = self._ground.document(link)
        controller = self._ground.controller_of(link)
        if found is not None and found.leader not in ("", controller):
            self._sever({(found.leader, controller), (controller, found.leader)})

    def _move(self, name: str) -> None:
        """Ask for another leader, as an operator may."""
        link = self._world.rng.choice(self._ground.links)
        controller = self._ground.controller_of(link)
        streamer = self._ground.streamers[controller]
        streamer.request(
            lambda request: CommandAsked(request, link, ("lead", name)), lambda outcome: None
        )

    def _unclean(self, name: str) -> None:
        """Elect any replica, as an operator may who prefers availability to committed records."""
        link = self._world.rng.choice(self._ground.links)
        self._ground.invariants.documents.may_be_unclean.add(link)
        streamer = self._ground.streamers[self._ground.controller_of(link)]
        streamer.request(
            lambda request: CommandAsked(request, link, ("elect", True)), lambda outcome: None
        )

    def _place(self, name: str) -> None:
        """Ask for other replicas, as an operator may."""
        rng = self._world.rng
        link = rng.choice(self._ground.links)
        found = self._ground.document(link)
        if found is None:
            return
        number = len(found.replicas) - len(found.adding)
        nodes = tuple(rng.sample(self._cluster.names, number))
        streamer = self._ground.streamers[self._ground.controller_of(link)]
        streamer.request(
            lambda request: CommandAsked(request, link, ("place", nodes)), lambda outcome: None
        )

    def _recreate(self, name: str) -> None:
        """Delete a topic, and create it again."""
        if self._world.rng.random() < 0.3:
            self._ground.recreate(self._world.rng.choice(self._ground.links))

    # Disks

    def _take_snapshots(self) -> None:
        name = self._world.rng.choice(self._cluster.names)
        self._snapshots[name] = self._ground.streamers[name].disk.copy()
        self._world.after(0.5 + self._world.rng.random() * 3, self._take_snapshots)

    def _lose_streams(self, name: str) -> None:
        """Replace a disk by an empty one, if other nodes have all committed records."""
        self._take(name, None)

    def _old_streams(self, name: str) -> None:
        """Restore an older disk, if other nodes have all committed records."""
        if name in self._snapshots:
            self._take(name, self._snapshots.pop(name))

    def _take(self, name: str, older: PartitionLedger | None) -> None:
        process = self._cluster.processes[name]
        if not process.up or self._taken or not self._is_spare(name):
            return
        asks = self._ground.streamers[name].partitions.core._asks
        self._taken.add(name)
        self._cluster.crash(name)
        self._world.after(ASKED_S if asks else 0.3, self._replace, name, older)

    def _replace(self, name: str, older: PartitionLedger | None) -> None:
        self._taken.discard(name)
        streamer = self._ground.streamers[name]
        if streamer.node.up:
            return  # It joined the group again meanwhile, with an empty disk.
        if self._is_spare(name):
            self._ground.invariants.checked["disks taken"] += 1
            self._lose(name)
            if older is not None:
                streamer.put_back(older)
        self._restart(name)

    def _lose(self, name: str) -> None:
        """Lose the contents of a node's disk."""
        streamer = self._ground.streamers[name]
        for partition, record in streamer.disk._records.items():
            self._ground.invariants.books[partition].ended.add((name, record.copy))
        streamer.lose_disk()

    def _rot_batch(self, name: str) -> None:
        """Damage a batch on a disk, if other nodes have all committed records."""
        disk = self._ground.streamers[name].disk
        full = [each for each, log in sorted(disk._logs.items()) if log.headers]
        if not full or not self._is_spare(name):
            return
        partition = self._world.rng.choice(full)
        found = self._ground.document(link_of(partition))
        hidden = any(
            name == partition and self._copy(node, name) == copy for name, node, copy in self.rotten
        )
        if found is None or found.min_in_sync < 2 or hidden or not self._is_calm(found):
            return  # It may become the only copy before a node finds the damage.
        headers = disk._logs[partition].headers
        disk.rot(partition, self._world.rng.choice(headers).base)
        copy = disk._records[partition].copy
        self.rotten.add((partition, name, copy))
        self._ground.invariants.checked["batches rotten"] += 1

    def _is_calm(self, found: ReplicaSet) -> bool:
        """Say whether all replicas are in sync, and no node has an operation under way."""
        nodes = [self._ground.streamers[name] for name in self._cluster.names]
        busy = any(not each.node.up or each.partitions.core._asks for each in nodes)
        return not busy and {node for node, _ in found.lrs} == {*found.replicas}

    def _copy(self, node: str, partition: str) -> str:
        """Return the copy of a partition that is on a node's disk, "" for none."""
        record = self._ground.streamers[node].disk._records.get(partition)
        return record.copy if record is not None else ""

    def _is_spare(self, name: str) -> bool:
        """Say whether every partition has another copy that holds all that is committed."""
        return all(self._has_other(link, name) for link in self._ground.links)

    def _has_other(self, link: str, name: str) -> bool:
        found = self._ground.document(link)
        if found is None or found.resolution is Resolution.DELETED:
            return True
        if found.resolution in (Resolution.ELECTION, Resolution.CANDIDATE_FOUND):
            return False  # The replicas of the next set are not known yet.
        partition = self._ground.name_of(link)
        whole = {
            node: self._is_copy_whole(partition, node, copy)
            for node, copy in (*found.lrs, *found.elr)
        }
        others = [is_whole for node, is_whole in whole.items() if node != name]
        # One at a time: the next is not taken before the sets name only copies that are whole.
        return all(others) and bool(others)

    def _is_copy_whole(self, partition: str, node: str, copy: str) -> bool:
        record = self._ground.streamers[node].disk._records.get(partition)
        return (
            record is not None
            and record.copy == copy
            and record.status is Status.FULL
            and (partition, node, copy) not in self.rotten
        )

    def heal(self) -> None:
        """End all faults."""
        self._until = self._world.now
        self._cluster.network.cuts.clear()
        self.calm_down()
        # Reordered pages are requested again, one by one: no healing time would be enough.
        self._cluster.network.in_order = True
        for name, process in self._cluster.processes.items():
            process.disk_slowness, process.disk_is_full = 1.0, False
            process.clock_ahead_us = 0
            streamer = self._ground.streamers[name]
            if not process.up:
                self._restart(name)
                continue
            if process.paused:
                process.resume()
            if streamer.partitions.core.draining:
                self._cluster.crash(name)
                self._cluster.start(name)
