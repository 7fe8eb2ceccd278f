"""Batches sent by the leader: new ones, those that a follower lacks, and those not acknowledged.

The leader sends new batches at the end of a turn, from memory, to each follower that is in step. A
follower that lags is sent pages, from memory or from the disk, as it acknowledges. The bytes under
way to a follower are bounded, so that heartbeats and documents are not delayed by them.
"""

from collections.abc import Callable

from docstore.model.document import NO_BALLOT
from docstore.model.streams_batch import PURGED, flags_of, header_of, range_of
from docstore.storage.partitions import Batches, CorruptPartition, PartitionResult
from docstore.streams.compaction import cut_out
from docstore.streams.core import Core
from docstore.streams.disk import Disk
from docstore.streams.leading import FollowerState, Leading
from docstore.streams.log import PartitionLog, common_offset
from docstore.wire.streams_messages import Adopt, Append, LogState, Rejected

OUTDATED = "outdated"
"""Code that rejects the log of a follower which is older than tombstones that are gone."""


class FollowerCatchUp:
    """Sends the batches of this node's partitions to their followers."""

    def __init__(self, core: Core, disk: Disk, damaged: Callable[[PartitionLog], None]) -> None:
        """damaged: called when a batch of a log fails its check."""
        self._core = core
        self._disk = disk
        self._damaged = damaged
        self._behind: dict[str, Leading] = {}
        """Partitions with followers that have not acknowledged everything."""

    def remind(self, leading: Leading) -> None:
        """Have the new high watermark and log start sent to the followers."""
        self._behind[leading.log.name] = leading

    def forget(self, leading: Leading) -> None:
        """Stop sending a partition that this node no longer leads."""
        self._behind.pop(leading.log.name, None)

    def attach(self, leading: Leading, follower: FollowerState, standing: LogState) -> None:
        """Tell a follower where the logs stop being equal, and send the batches from there on."""
        common = common_offset(standing, leading.log) if standing.full else 0
        follower.is_attached = True
        if common < leading.log.start:
            self._begin(leading, follower, common)
        else:
            # A log without records keeps its last batch, which an equal log must not erase.
            is_first = common == leading.log.start and (common < leading.log.end or not common)
            self._adopt(leading, follower, common, is_first=is_first)
            self.feed(leading, follower)

    def _begin(self, leading: Leading, follower: FollowerState, common: int) -> None:
        """Have a follower begin with the batch that holds the log start, or with the last one.

        common: offset up to which it has the same log; it goes on there if it has a part of that
        batch, since compaction may have joined batches.
        """
        log, copy, start = leading.log, follower.copy, leading.log.start
        offset = min(start, log.end - 1)

        def begin(found: PartitionResult) -> None:
            follower.is_looking = False
            if isinstance(found, CorruptPartition):
                self._damaged(log)
            elif follower.is_attached and follower.copy == copy:
                batches = [each for each in found if isinstance(each, bytes)]
                base = range_of(batches[0])[0] if batches else start
                first = max(base, common)
                follower.begins = (first, start)
                self._adopt(leading, follower, first, is_first=base >= common)
                self.feed(leading, follower)

        in_memory = log.from_tail(offset, log.end, 0)
        if in_memory is not None:
            begin(in_memory)
        else:
            follower.is_looking = True
            self._disk.read(Batches(log.name, offset, log.durable, 0), begin)

    def _adopt(
        self, leading: Leading, follower: FollowerState, common: int, *, is_first: bool
    ) -> None:
        """Send a follower the offset to go on at. is_first: that of this log's first batch."""
        core, log = self._core, leading.log
        follower.in_flight.clear()
        follower.in_flight_bytes = 0
        follower.progress_at = core.now
        adopt = Adopt(
            log.name, leading.epoch, follower.copy, leading.base, common, log.start, log.high,
            log.replica_set.unclean if log.replica_set else 0, log.ballots,
            log.producers.pack(common) if is_first else b"", (),
        )  # fmt: skip
        core.send(follower.node, adopt)
        # The first Append repeats a start other than 0: the answer proves that it is durable.
        follower.sent, follower.told = common, (log.high, -1 if log.start else 0)
        follower.news = 0
        follower.is_copied = is_first or (follower.is_copied and follower.has_joined)
        self.remind(leading)

    def feed_all(self, leading: Leading) -> None:
        """Send new batches to the followers that are in step."""
        for follower in leading.followers.values():
            self.feed(leading, follower)

    def feed(self, leading: Leading, follower: FollowerState) -> None:
        """Send pages until the follower was sent all, or the bytes under way reach the bound."""
        core, log = self._core, leading.log
        config = core.config
        is_below = follower.sent < log.start and (follower.sent, log.start) != follower.begins
        if follower.is_attached and is_below and not follower.is_looking:
            # Records that it still lacks were deleted (scenario F27).
            self._begin(leading, follower, follower.sent)
            return
        while (
            follower.is_attached
            and follower.sent < log.end
            and follower.in_flight_bytes < config.replication.in_flight_bytes
            and not follower.is_looking
        ):
            page = log.from_tail(follower.sent, log.end, config.replication.page_bytes)
            if page is None:
                follower.is_looking = True
                query = Batches(log.name, follower.sent, log.durable, config.replication.page_bytes)
                self._disk.read(query, lambda result: self._looked(leading, follower, result))
                return
            self._send(leading, follower, page)

    def _looked(self, leading: Leading, follower: FollowerState, result: PartitionResult) -> None:
        follower.is_looking = False
        if isinstance(result, CorruptPartition):
            self._damaged(leading.log)
            return
        page = [raw for raw in result if isinstance(raw, bytes)]
        is_next = page and range_of(page[0])[0] <= follower.sent
        if is_next and range_of(page[0])[0] < follower.sent:
            page = [raw for raw in page if range_of(raw)[1] > follower.sent]
        if page and is_next:
            self._send(leading, follower, page)
        self.feed(leading, follower)

    def _send(self, leading: Leading, follower: FollowerState, page: list[bytes]) -> None:
        log = leading.log
        if not follower.is_copied and any(flags_of(raw) & PURGED for raw in page):
            # The follower may have records whose tombstones are gone: it must begin anew (RC14).
            self._core.counters["outdated"] += 1
            follower.is_attached = False
            why = (log.name, leading.epoch, OUTDATED, NO_BALLOT, "")
            self._core.post(follower.node, Rejected, why)
            return
        first, end = range_of(page[0])
        if first < follower.sent:
            # The follower has the first records of a batch that compaction has made of several.
            first = follower.sent
            page = [cut_out(log.place, page[0], header_of(page[0]), first, end), *page[1:]]
        size = sum(map(len, page))
        self._append(leading, follower, first, page)
        _, follower.sent = range_of(page[-1])
        follower.in_flight.append((follower.sent, size))
        follower.in_flight_bytes += size
        self.remind(leading)

    def _append(
        self, leading: Leading, follower: FollowerState, first: int, page: list[bytes]
    ) -> None:
        log = leading.log
        # A follower that lacks records below the start cannot take it.
        if follower.told != (log.high, log.start) and follower.sent >= log.start:
            follower.news = leading.last_probe = self._core.next_token()
            if follower.told[1] != log.start:
                follower.start_news = follower.news
            follower.told = (log.high, log.start)
        self._core.post(
            follower.node,
            Append,
            (
                log.name, leading.epoch, leading.base, first, log.high, log.start,
                leading.last_probe, page,
            ),
        )  # fmt: skip

    def acked(self, leading: Leading, follower: FollowerState, end: int) -> None:
        """Take what a follower has acknowledged as durable, and send the next pages."""
        core = self._core
        follower.has_joined = True
        follower.acked = max(follower.acked, end)
        follower.progress_at = core.now
        while follower.in_flight and follower.in_flight[0][0] <= follower.acked:
            follower.in_flight_bytes -= follower.in_flight.popleft()[1]
        follower.sent = max(follower.sent, follower.acked)
        self.feed(leading, follower)

    def ask(self, leading: Leading, follower: FollowerState) -> None:
        """Send an Append without records, as a probe or to tell the high watermark."""
        if follower.is_attached:
            self._append(leading, follower, follower.sent, [])

    def tick(self) -> None:
        """Send again what was not acknowledged, and high watermarks that no batch has carried."""
        for name, leading in list(self._behind.items()):
            has_more = False
            for follower in leading.followers.values():
                has_more |= self._repair(leading, follower)
            if not has_more:
                del self._behind[name]

    def _repair(self, leading: Leading, follower: FollowerState) -> bool:
        """Resend to a follower if due, and say whether it has still to acknowledge something."""
        core, log = self._core, leading.log
        if not follower.is_attached:
            return False
        if follower.acked < log.end or not follower.has_joined:
            if core.now - follower.progress_at >= core.config.replication.resend_s:
                core.counters["resent"] += 1
                follower.progress_at = core.now
                follower.in_flight.clear()
                follower.in_flight_bytes = 0
                if follower.has_joined:
                    follower.sent = min(follower.acked, follower.sent)
                self.feed(leading, follower)
                if not follower.in_flight:
                    # The follower has the whole log; its answer was lost.
                    self.ask(leading, follower)
            return True
        if follower.told != (log.high, log.start):
            self._tell(leading, follower)
        elif follower.probe >= follower.news:
            return False
        elif core.now - follower.progress_at >= core.config.replication.resend_s:
            core.counters["told_again"] += 1
            self._tell(leading, follower)
        return True

    def _tell(self, leading: Leading, follower: FollowerState) -> None:
        follower.progress_at = self._core.now
        self.ask(leading, follower)
