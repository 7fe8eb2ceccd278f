"""Live replica set: a replica that lags leaves, one that caught up joins, one change at a time.

The leader also records in the document whether its disk is full. A smaller set counts only once the
document is known to name it. A larger set counts from the time of the update, until it is known
that the document will never name it (rules RC2 and RC3).
"""

from dataclasses import replace

from docstore.machines.updates import Updates
from docstore.model.document import NO_BALLOT, Row
from docstore.ownership.by_lag import with_added, without
from docstore.streams.core import Core
from docstore.streams.high_watermark import HighWatermarks
from docstore.streams.leading import FollowerState, Leading, Leads, in_set
from docstore.streams.replica_set import Copy, ReplicaSet, Resolution
from docstore.wire.streams_messages import Notice, Rejected

NOTICE_INTERVAL_S = 1.0


class InSync:
    """Keeps the live replica sets of the partitions that this node leads."""

    def __init__(
        self, core: Core, leads: Leads, high_watermarks: HighWatermarks, updates: Updates
    ) -> None:
        self._core = core
        self._leads = leads
        self._high_watermarks = high_watermarks
        self._updates = updates
        self.watched: dict[str, Leading] = {}
        """Partitions with a follower that is behind, or is not in the live replica set."""

    def watch(self, leading: Leading) -> None:
        """Check the followers of a partition until all are in step and in the live replica set."""
        if leading.log.name not in self.watched:
            for follower in leading.followers.values():
                if follower.is_attached and in_set(leading.recorded, follower.node):
                    # The follower had the whole log when checks ended; no record came since.
                    follower.caught_up_at = self._core.now
        self.watched[leading.log.name] = leading

    def watch_node(self, node: str) -> None:
        """Check the partitions that a node follows, as its connection was made or lost."""
        for leading in self._leads.values():
            if node in leading.followers:
                self.watch(leading)

    def link_lost(self, node: str) -> None:
        """Have the replica at that node attach again: messages under way to it are lost."""
        self.watch_node(node)
        for leading in self._leads.values():
            if node in leading.followers:
                leading.followers[node].is_attached = False

    def watch_all(self) -> None:
        """Check all partitions, as our disk has become full or has room again."""
        self.watched.update(self._leads)

    def tick(self) -> None:
        """Change the live replica sets that are not as they should be."""
        for name, leading in list(self.watched.items()):
            if self._leads.get(name) is not leading or not self._look(leading):
                del self.watched[name]

    def _look(self, leading: Leading) -> bool:
        """Change a live replica set if needed; say whether it has to be checked again."""
        for follower in leading.followers.values():
            self._measure(leading, follower)
        if not leading.is_online or leading.changing is not None:
            return True
        found = leading.log.replica_set
        if found is None or found.epoch != leading.epoch:
            return True
        resolution = Resolution.ONLINE if self._core.has_room else Resolution.OUT_OF_STORAGE
        lrs, elr = self._wanted(leading, found)
        after = replace(found, lrs=lrs, elr=elr, resolution=resolution)
        if after != found:
            self._change(leading, after)
            return True
        for follower in leading.followers.values():
            self._notify(leading, follower)
        return any(not self._is_settled(leading, each) for each in leading.followers.values())

    def _notify(self, leading: Leading, follower: FollowerState) -> None:
        """Have a connected replica attach: send it the document, and a rejection.

        It may not know the partition, or may think that it is attached. This leader drops a
        follower that the document does not name; if the document names it again soon, the follower
        may not have heard of either change.
        """
        core, log = self._core, leading.log
        is_silent = not follower.is_attached and core.view.is_linked(follower.node)
        if is_silent and core.now - follower.noticed_at >= NOTICE_INTERVAL_S and log.replica_set:
            follower.noticed_at = core.now
            core.post(follower.node, Notice, (log.link, *log.tag, log.replica_set.pack()))
            why = (log.name, leading.epoch, "not-attached", NO_BALLOT, "")
            core.post(follower.node, Rejected, why)

    def _measure(self, leading: Leading, follower: FollowerState) -> None:
        """Record when a follower last had the whole log, and since when it has been in step."""
        now, log = self._core.now, leading.log
        if self._core.view.is_linked(follower.node):
            follower.linked_at = now
        else:
            follower.is_attached = False
        end, at = follower.target
        if follower.has_joined and follower.is_attached:
            if follower.acked >= log.end:
                follower.caught_up_at = now
            elif follower.acked >= end:
                follower.caught_up_at = max(follower.caught_up_at, at)
                follower.target = (log.end, now)
        if not self._may_join(leading, follower):
            follower.in_step_since = None
        elif follower.in_step_since is None:
            follower.in_step_since = now

    def _may_join(self, leading: Leading, follower: FollowerState) -> bool:
        log = leading.log
        return (
            follower.is_attached
            and follower.is_full
            and follower.has_joined
            and follower.acked >= max(log.high, leading.base)
            and not self._lags(leading, follower)
        )

    def _lags(self, leading: Leading, follower: FollowerState) -> bool:
        lag_s = self._core.now - follower.caught_up_at
        records = leading.max_lag_records
        return lag_s > leading.max_lag_ms / 1000 or bool(
            records and leading.log.end - follower.acked > records
        )

    def _wanted(
        self, leading: Leading, found: ReplicaSet
    ) -> tuple[tuple[Copy, ...], tuple[Copy, ...]]:
        """Return (lrs, elr) as they should be: without all that lag, else with one that joins."""
        gone = [copy for copy in found.lrs if self._is_out(leading, copy)]
        if gone:
            self._core.counters["shrunk"] += 1
            return without(found.lrs, found.elr, gone, found.min_in_sync)
        for follower in leading.followers.values():
            copy = (follower.node, follower.copy)
            since = follower.in_step_since
            if (
                copy not in found.lrs
                and follower.node not in found.leaving
                and since is not None
                and self._core.now - since >= self._core.config.replication.join_s
                and follower.knows_start(leading.log.start)
            ):
                self._core.counters["grown"] += 1
                return with_added(found.lrs, found.elr, copy, found.min_in_sync)
        return found.lrs, found.elr

    def _is_out(self, leading: Leading, copy: Copy) -> bool:
        node, data = copy
        if node == self._core.me:
            return False
        follower = leading.followers.get(node)
        if follower is None or (follower.copy and follower.copy != data) or not follower.is_full:
            return True
        unlinked_s = self._core.now - follower.linked_at
        return unlinked_s > self._core.config.replication.unlinked_s or self._lags(
            leading, follower
        )

    def _is_settled(self, leading: Leading, follower: FollowerState) -> bool:
        """Say whether no check is needed until the next append or connection."""
        if in_set(leading.recorded, follower.node):
            return follower.is_attached and follower.acked >= leading.log.end
        return not self._core.view.is_linked(follower.node)

    def _change(self, leading: Leading, after: ReplicaSet) -> None:
        log = leading.log
        leading.changing = after.lrs
        self._updates.change(
            log.link,
            log.tag,
            after.pack(),
            lambda row, is_done: self._changed(leading, row),
            is_relevant=lambda: self._leads.get(log.name) is leading,
        )

    def _changed(self, leading: Leading, row: Row | None) -> None:
        """Continue after an update of the document, whether it succeeded or failed."""
        leading.changing = None
        if self._leads.get(leading.log.name) is leading:
            self._high_watermarks.advance(leading)
            self.watch(leading)
