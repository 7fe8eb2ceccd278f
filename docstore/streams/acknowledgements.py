"""Messages of followers to their leader: the state of their log, and how far it is durable.

In: Attach (a follower's log when it attaches) and Acked (its durable end). Out: Rejected, if this
node does not lead the partition or does not know the follower.
"""

from functools import partial

from docstore.model.document import NO_BALLOT
from docstore.streams.back_pressure import Deferring
from docstore.streams.core import Core
from docstore.streams.disk import Disk
from docstore.streams.leader import Leader
from docstore.streams.leading import FollowerState, Leading
from docstore.streams.log import PartitionLogs
from docstore.streams.role_transitions import Roles
from docstore.wire.streams_messages import Acked, Attach, LogState, Rejected


class Acknowledgements:
    """Receives Attach and Acked for the partitions that this node leads."""

    def __init__(
        self,
        core: Core,
        logs: PartitionLogs,
        disk: Disk,
        *,
        leader: Leader,
        roles: Roles,
        deferring: Deferring,
    ) -> None:
        self._core = core
        self._logs = logs
        self._disk = disk
        self._leader = leader
        self._roles = roles
        self._deferring = deferring

    def attach(self, sender: str, message: Attach) -> None:
        """Take the state of logs of a follower; reject it where this node does not lead."""
        core = self._core
        for fields in message.partitions:
            standing = LogState(*fields)
            leading = self._leader.leading.get(standing.name)
            if leading is None or leading.epoch != standing.epoch:
                core.post(sender, Rejected, self._rejection(standing))
                continue
            follower = leading.followers.get(sender)
            if follower is None:
                why = (standing.name, standing.epoch, "unknown-replica", NO_BALLOT, core.me)
                core.post(sender, Rejected, why)
                self._roles.reread(leading.log)  # The document may name the follower by now.
            elif leading.is_promised:
                self._attach(leading, follower, standing)
            else:
                self._disk.when_durable(partial(self._attach_later, leading, sender, standing))

    def _attach_later(self, leading: Leading, sender: str, standing: LogState) -> None:
        """Take the state of a log that came before this node's promise was durable (RF8)."""
        follower = leading.followers.get(sender)
        if follower is not None and self._leader.leading.get(standing.name) is leading:
            self._attach(leading, follower, standing)

    def _attach(self, leading: Leading, follower: FollowerState, standing: LogState) -> None:
        leader, log = self._leader, leading.log
        if follower.copy != standing.copy:
            # A copy with other data: acknowledgements of the former copy do not hold for it.
            follower.copy, follower.acked, follower.has_joined = standing.copy, 0, False
            follower.in_step_since = None
        follower.is_full = standing.full
        unclean = log.replica_set.unclean if log.replica_set else 0
        if standing.full and standing.adopted[0] >= unclean:
            # Committed records stay committed, even if only one replica knows that they are (rule
            # RC9).
            leader.high_watermarks.raise_to(leading, min(standing.high, log.end))
        leader.in_sync.watch(leading)
        if standing.full or (follower.node, standing.copy) not in leading.required:
            leader.catchup.attach(leading, follower, standing)

    def _rejection(self, standing: LogState) -> tuple[str, int, str, tuple[int, str], str]:
        log = self._logs.get(standing.name)
        leader = log.replica_set.leader if log and log.replica_set else ""
        promised = log.promised if log else (0, "")
        return (standing.name, standing.epoch, "not-leader", promised, leader)

    def acked(self, sender: str, message: Acked) -> None:
        """Take the durable ends of logs of a follower."""
        leader = self._leader
        for name, epoch, copy, end, probe in message.partitions:
            leading = leader.leading.get(name)
            if leading is None or leading.epoch != epoch:
                continue
            follower = leading.followers.get(sender)
            if follower is None:
                continue
            if follower.copy != copy:
                self._core.post(sender, Rejected, (name, epoch, "not-attached", NO_BALLOT, ""))
                continue
            follower.probe = max(follower.probe, probe)
            leader.catchup.acked(leading, follower, end)
            leader.high_watermarks.advance(leading)
            self._deferring.acked(leading)
