"""Leader of a partition: begins its term, serves producers and followers, and ends it.

Each part has a file: batches are judged and sealed (`appending.py`), requests wait
(`purgatory.py`), records become committed (`high_watermark.py`), followers are sent batches
(`catchup.py`) and acknowledge them (`acknowledgements.py`), the live replica set changes
(`in_sync.py`), old records are deleted (`retention.py`), and those that a client does not want any
more (`record_deletion.py`).
"""

from docstore.machines.updates import Updates
from docstore.streams.appending import Appending
from docstore.streams.catchup import FollowerCatchUp
from docstore.streams.confirming import EpochCheck
from docstore.streams.core import Core
from docstore.streams.disk import Disk
from docstore.streams.fetching import Fetching
from docstore.streams.high_watermark import HighWatermarks
from docstore.streams.in_sync import InSync
from docstore.streams.leading import FollowerState, Leading, Leads, PendingAppend
from docstore.streams.log import PartitionLog, PartitionLogs
from docstore.streams.purgatory import Purgatory, produced
from docstore.streams.record_deletion import RecordDeletion
from docstore.streams.replica_set import ReplicaSet
from docstore.streams.replicas import Replicas
from docstore.streams.retention import RetentionTask
from docstore.streams.topics import Topics
from docstore.wire.streams_messages import Produce


class Leader:
    """Leads the partitions of this node."""

    def __init__(
        self,
        core: Core,
        logs: PartitionLogs,
        disk: Disk,
        leads: Leads,
        *,
        replicas: Replicas,
        catchup: FollowerCatchUp,
        fetching: Fetching,
        topics: Topics,
        updates: Updates,
    ) -> None:
        """leads: those partitions; only this class adds and removes them."""
        self._core = core
        self._logs = logs
        self.leading = leads
        self.catchup = catchup
        self._fetching = fetching
        self.purgatory = purgatory = Purgatory(core)
        self.high_watermarks = HighWatermarks(core, disk, catchup, purgatory, fetching)
        self.in_sync = InSync(core, leads, self.high_watermarks, updates)
        self.retention = RetentionTask(
            core, leads, disk, replicas=replicas, catchup=catchup, topics=topics
        )
        self.deletion = RecordDeletion(core, leads, disk, replicas=replicas, catchup=catchup)
        self.appending = Appending(
            core,
            disk,
            purgatory=purgatory,
            confirming=EpochCheck(core, leads, purgatory, updates),
            catchup=catchup,
            in_sync=self.in_sync,
            fetching=fetching,
        )

    def open(self, log: PartitionLog, found: ReplicaSet) -> None:
        """Become the candidate of an epoch: followers may attach, producers must wait."""
        core = self._core
        leading = self.leading[log.name] = Leading(
            log=log,
            epoch=found.epoch,
            base=log.end,
            recorded=found.lrs,
            eligible=found.elr,
            least=found.min_in_sync,
            max_lag_ms=found.max_lag_ms,
            max_lag_records=found.max_lag_records,
            compression=found.compression,
            followers={},
        )
        self.place(leading, found)
        core.counters["leads_opened"] += 1
        self.retention.opened(leading)

    def place(self, leading: Leading, found: ReplicaSet) -> None:
        """Take the replicas and the bounds that the document names."""
        core = self._core
        leading.recorded, leading.eligible = found.lrs, found.elr
        leading.least = found.min_in_sync
        leading.max_lag_ms, leading.max_lag_records = found.max_lag_ms, found.max_lag_records
        leading.compression = found.compression
        named = [node for node in (*found.replicas, *found.adding) if node != core.me]
        for node in named:
            if node not in leading.followers:
                follower = leading.followers[node] = FollowerState(node)
                follower.linked_at = follower.caught_up_at = core.now
        for node in leading.followers.keys() - set(named):
            del leading.followers[node]
        self.catchup.remind(leading)
        self.high_watermarks.advance(leading)
        self.in_sync.watch(leading)

    def serve(self, leading: Leading) -> None:
        """Begin to serve producers, now that the document names this node."""
        leading.is_online = True
        self.appending.release(leading)

    def close(self, log: PartitionLog) -> None:
        """End the lead, and tell waiting producers whether their records may be in a log."""
        leading = self.leading.pop(log.name, None)
        if leading is None:
            return
        self._core.counters["leads_closed"] += 1
        self.appending.forget(leading)
        self.catchup.forget(leading)
        self.purgatory.turn_away(leading)
        self._fetching.raised(leading)

    def durable(self, log: PartitionLog) -> None:
        """Advance the high watermark, as more of the log is durable here."""
        leading = self.leading.get(log.name)
        if leading is not None:
            self.high_watermarks.advance(leading)

    def produce(self, sender: str, message: Produce) -> None:
        """Append the records of a request, or reject all of them with a reason."""
        core = self._core
        pending = PendingAppend(
            entry=sender,
            id=message.id,
            acks=message.acks,
            deadline=core.now + message.remaining_ms / 1000,
            producer=(
                (str(message.producer[0]), int(message.producer[1]), int(message.producer[2]))
                if message.producer
                else None
            ),
            flags=message.flags,
            records=message.records,
            body=message.body,
        )
        leading = self.leading.get(message.name)
        if leading is None:
            log = self._logs.get(message.name)
            known = log.replica_set if log is not None else None
            hint = known.leader if known and known.leader != core.me else ""
            core.send(sender, produced(pending, "not-leader", "", hint))
        elif self.purgatory.admit(pending):
            self.appending.take(leading, pending)
