"""Role of this node in a partition, by the partition's document: candidate, leader, follower.

In: every version of a replica-set document that this node learns to be decided, from its own
replica of the slot, from a controller or leader, or from a read. A replica reads the document if it
knows none, or if its leader does not answer.
"""

from docstore.machines.updates import Updates, tag_of
from docstore.model.operation import Answer
from docstore.ownership.by_lag import LED
from docstore.streams.core import Core
from docstore.streams.disk import Disk
from docstore.streams.follower import FollowedPartitions
from docstore.streams.leader import Leader
from docstore.streams.log import PartitionLog, PartitionLogs
from docstore.streams.replica_set import (
    ReplicaSet,
    Resolution,
    partition_name,
    read_replica_set,
)
from docstore.streams.replicas import Replicas
from docstore.wire.streams_messages import Notice, Promoted, Rejected, Resign

READS_AT_ONCE = 16
READ_INTERVAL_S = 1.0
"""Pause between two reads of a document while its leader does not answer."""


class Roles:
    """Roles of this node in the partitions that it has a replica of."""

    def __init__(
        self,
        core: Core,
        logs: PartitionLogs,
        disk: Disk,
        *,
        replicas: Replicas,
        follower: FollowedPartitions,
        leader: Leader,
        updates: Updates,
    ) -> None:
        self._core = core
        self._logs = logs
        self._disk = disk
        self._replicas = replicas
        self._follower = follower
        self._leader = leader
        self._updates = updates
        self._promoting: dict[str, float] = {}
        """Partitions that this node is the candidate for -> when the controller was last told."""
        self._unsure: dict[str, float] = dict.fromkeys(logs, core.now)
        """Partitions whose leader does not answer or is not known -> when to read the document."""
        self._reading = 0

    def take(self, link: str, tag: tuple[int, int], found: ReplicaSet) -> None:
        """Take the role that a version of the document gives this node; ignore an older version."""
        core = self._core
        name = partition_name(link, found.incarnation)
        log = self._logs.get(name)
        is_named = core.me in found.replicas or core.me in found.adding
        if log is None:
            self.reread_all(link)  # An incarnation that was deleted and created again.
            if not is_named or found.resolution is Resolution.DELETED:
                return
            log = self._replicas.begin(name)
        if tag <= log.tag:
            return
        log.tag, log.replica_set = tag, found
        if found.resolution is Resolution.DELETED:
            self.drop(log)
        elif not is_named:
            # This version may be outdated: only a read returns the current one.
            self.reread(log)
        else:
            self._unsure.pop(name, None)
            self._act(log, found)

    def _act(self, log: PartitionLog, found: ReplicaSet) -> None:
        core = self._core
        leading = self._leader.leading.get(log.name)
        if leading is not None and found.epoch > leading.epoch:
            self.step_down(log)
            leading = None
        if found.resolution is Resolution.CANDIDATE_FOUND:
            if found.candidate == core.me:
                self._be_candidate(log, found)
            else:
                self._follower.follow(log, found.candidate, found.epoch, found.unclean)
        elif found.resolution in LED and found.leader != core.me:
            self._follower.follow(log, found.leader, found.epoch, found.unclean)
        elif found.resolution in LED and leading is not None:
            self._promoting.pop(log.name, None)
            self._leader.place(leading, found)
            if not leading.is_online:
                self._leader.serve(leading)
        elif found.resolution in LED:
            # A ballot ends with its process: records that it sent may be missing on this disk.
            self.resign(log, found.epoch, "restarted")

    def _be_candidate(self, log: PartitionLog, found: ReplicaSet) -> None:
        """Begin to lead at the end of our durable log; never twice under one ballot."""
        core, ballot = self._core, (found.epoch, self._core.me)
        is_named = (core.me, log.copy) in found.lrs
        if log.promised >= ballot or not log.full or not is_named or core.draining:
            controller = core.view.owner_of(log.link)
            item = (log.name, found.epoch, "stale-epoch", log.promised, "")
            if log.name not in self._leader.leading and controller:
                core.post(controller, Rejected, item)
            return
        log.promised = log.adopted = log.joined = ballot
        log.open_term(ballot)
        self._disk.save(log)
        self._follower.forget(log)
        self._leader.open(log, found)
        core.counters["candidacies"] += 1
        self._disk.when_durable(lambda: self._promoted(log, found.epoch))

    def _promoted(self, log: PartitionLog, epoch: int) -> None:
        leading = self._leader.leading.get(log.name)
        if leading is not None and leading.epoch == epoch:
            leading.is_promised = True
            self._promoting[log.name] = self._core.now
            self._tell_promoted(log)

    def _tell_promoted(self, log: PartitionLog) -> None:
        leading = self._leader.leading[log.name]
        controller = self._core.view.owner_of(log.link)
        if controller:
            self._core.post(controller, Promoted, (log.name, leading.epoch, leading.base))

    def resign(self, log: PartitionLog, epoch: int, why: str) -> None:  # Tests replace this.
        """Ask the controller for another leader; continue to lead until there is one."""
        core = self._core
        controller = core.view.owner_of(log.link)
        core.counters["resignations"] += 1
        if controller:
            core.post(controller, Resign, (log.name, epoch, why))
        self._unsure[log.name] = core.now + READ_INTERVAL_S

    def step_down(self, log: PartitionLog) -> None:
        """End the lead or the candidacy of this node."""
        self._promoting.pop(log.name, None)
        self._leader.close(log)

    def reread(self, log: PartitionLog) -> None:
        """Read the document soon, as the node that we follow does not lead."""
        self._unsure.setdefault(log.name, self._core.now)

    def reread_all(self, link: str) -> None:
        """Read a document soon, as it may not name this node any more."""
        for log in self._logs.at(link):
            self.reread(log)

    def drop(self, log: PartitionLog) -> None:
        """Delete the data, as the document is deleted or does not name this node."""
        self.step_down(log)
        self._follower.forget(log)
        self._unsure.pop(log.name, None)
        self._replicas.drop(log)
        self._core.counters["dropped"] += 1

    def tick(self) -> None:
        """Tell controllers again of candidacies, and read the documents that are due."""
        core = self._core
        for name, told_at in list(self._promoting.items()):
            if name not in self._leader.leading:
                del self._promoting[name]
            elif core.now - told_at >= core.config.replication.resend_s:
                self._promoting[name] = core.now
                self._tell_promoted(self._logs[name])
        for name in self._follower.seeking_since(core.now - READ_INTERVAL_S):
            self._unsure.setdefault(name, core.now)
        for name, at in list(self._unsure.items()):
            if self._reading >= READS_AT_ONCE:
                break
            if at <= core.now:
                self._read(name)

    def _read(self, name: str) -> None:
        log = self._logs.get(name)
        if log is None:
            del self._unsure[name]
            return
        self._unsure[name] = self._core.now + READ_INTERVAL_S
        self._reading += 1
        self._updates.read(log.link, lambda answer: self._read_done(log, answer))

    def _read_done(self, log: PartitionLog, answer: Answer) -> None:
        self._reading -= 1
        core = self._core
        if not self._logs.holds(log):
            return
        if answer.status == 404:
            self._unsure.pop(log.name, None)
            self.drop(log)
            return
        row = answer.row
        if not answer.is_success or row is None:
            return
        self._updates.learn(row)  # Changes our role, if it is new.
        found = read_replica_set(row.state)
        if found is None or not self._logs.holds(log):
            return  # The update may have dropped the partition.
        if found.incarnation != log.incarnation or not (
            core.me in found.replicas or core.me in found.adding
        ):
            self.drop(log)
        elif found.resolution in LED:
            is_leading = log.name in self._leader.leading
            if found.leader == core.me and not is_leading:
                self.resign(log, found.epoch, "restarted")
            elif is_leading or log.joined == (found.epoch, found.leader):
                self._unsure.pop(log.name, None)
            if self._follower.is_seeking(log, found.leader):
                # A leader that has lost its data may not know the partition.
                core.post(found.leader, Notice, (log.link, *tag_of(row), row.state))
