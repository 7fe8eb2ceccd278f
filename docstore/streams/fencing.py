"""Promises of a replica: it accepts no message of a leader with a smaller ballot.

In: Fence of a controller, and the ballot of every other message. Out: Fenced, once the promise is
durable. The fence is the same as for documents (`ownership/ballot.py`). A conditional update of the
replica-set document has allocated the epoch before any node uses it.
"""

from collections.abc import Callable
from functools import partial

from docstore.model.document import Ballot
from docstore.ownership.ballot import is_fenced
from docstore.streams.core import Core
from docstore.streams.disk import Disk
from docstore.streams.log import PartitionLog, PartitionLogs
from docstore.streams.replicas import Replicas
from docstore.wire.streams_messages import Fence, Fenced, Rejected


class Fencing:
    """Makes the promises of this node's replicas, and answers once they are durable."""

    def __init__(
        self,
        core: Core,
        logs: PartitionLogs,
        disk: Disk,
        replicas: Replicas,
        depose: Callable[[PartitionLog], None],
    ) -> None:
        """depose: ends this node's lead of a partition, if it leads it."""
        self._core = core
        self._logs = logs
        self._disk = disk
        self._replicas = replicas
        self._depose = depose

    def fence(self, sender: str, message: Fence) -> None:
        """Promise epochs, and send the state of our logs once the promises are durable (RF1)."""
        for name, epoch in message.partitions:
            log = self._logs.get(name) or self._replicas.begin(name)
            if self.accepts(log, (epoch, ""), sender):
                self._disk.when_durable(partial(self._tell, sender, log, epoch))

    def accepts(self, log: PartitionLog, ballot: Ballot, sender: str) -> bool:
        """Promise a ballot, or reject it to the sender if a greater one was promised."""
        core = self._core
        if is_fenced(log.promised, ballot):
            core.counters["fenced"] += 1
            self.reject(sender, log, ballot[0], "stale-epoch")
            return False
        if log.promised[0] == ballot[0] and log.promised[1] not in ("", ballot[1]):
            core.alarm(f"{log.name}: two leaders of epoch {ballot[0]}: {log.promised[1]}, {sender}")
            return False
        if ballot > log.promised:
            log.promised = ballot
            self._disk.save(log)
            if ballot[1] != core.me:
                self._depose(log)
        return True

    def reject(self, to: str, log: PartitionLog, epoch: int, code: str) -> None:
        """Reject a message, and name the ballot that this replica has promised."""
        leader = log.replica_set.leader if log.replica_set else ""
        self._core.post(to, Rejected, (log.name, epoch, code, log.promised, leader))

    def _tell(self, controller: str, log: PartitionLog, epoch: int) -> None:
        """Send the state of the durable log, unless a greater ballot was promised meanwhile."""
        core = self._core
        if log.promised != (epoch, "") or not self._logs.holds(log):
            return
        if log.durable < log.end:
            # Wait until the batches appended before the promise are durable as well.
            self._disk.when_durable(lambda: self._tell(controller, log, epoch))
            return
        core.post(controller, Fenced, log.standing(epoch))
