"""Appends of a leader: judge the records, seal them into batches, send these to the followers.

At the end of each turn, the records of one partition that waited are sealed into one batch. Each
request of an idempotent producer becomes a batch of its own. The leader sends a batch to the
followers while its own disk stores it.
"""

from docstore.model.streams_batch import KAFKA, BatchHeader, header_of, seal
from docstore.streams.catchup import FollowerCatchUp
from docstore.streams.confirming import EpochCheck
from docstore.streams.core import Core
from docstore.streams.disk import Disk
from docstore.streams.fetching import Fetching
from docstore.streams.forms import seal_compressed
from docstore.streams.in_sync import InSync
from docstore.streams.leading import Leading, PendingAppend
from docstore.streams.purgatory import Purgatory
from docstore.streams.replica_set import COMPRESSIONS


class Appending:
    """Appends records to the partitions that this node leads."""

    def __init__(
        self,
        core: Core,
        disk: Disk,
        *,
        purgatory: Purgatory,
        confirming: EpochCheck,
        catchup: FollowerCatchUp,
        in_sync: InSync,
        fetching: Fetching,
    ) -> None:
        self._core = core
        self._disk = disk
        self._purgatory = purgatory
        self._confirming = confirming
        self._catchup = catchup
        self._in_sync = in_sync
        self._fetching = fetching
        self._dirty: dict[str, Leading] = {}

    def take(self, leading: Leading, pending: PendingAppend) -> None:
        """Judge a request, or defer it until this epoch is known to be the newest."""
        if leading.defers:
            leading.deferred.append(pending)
        else:
            self._judge(leading, pending)

    def release(self, leading: Leading) -> None:
        """Judge the deferred requests, as this epoch is known to be the newest."""
        while leading.deferred and not leading.defers:
            pending = leading.deferred.popleft()
            if not pending.is_answered:
                self._judge(leading, pending)

    def forget(self, leading: Leading) -> None:
        """Drop the unsealed records of a partition that this node no longer leads."""
        self._dirty.pop(leading.log.name, None)

    # Acceptance of requests

    def _judge(self, leading: Leading, pending: PendingAppend) -> None:
        """Append the records, wait for the original of a repeated batch, or reject the request."""
        core, log, purgatory = self._core, leading.log, self._purgatory
        code, detail = self._why_not(leading, pending)
        if code:
            purgatory.answer(pending, leading, code, detail=detail)
            return
        if pending.producer is None:
            leading.gathered.append(pending)
            self._dirty[log.name] = leading
            return
        self._seal_gathered(leading)  # Keeps the order of arrival.
        expired_us = core.expired_us(log.last_us)
        verdict = log.producers.judge(pending.producer, pending.records, expired_us=expired_us)
        if verdict.entry is not None:
            core.counters["repeated"] += 1
            pending.base, pending.repeated = verdict.entry.base, True
            purgatory.wait(leading, pending)
            purgatory.complete(leading)
        elif verdict.code and not pending.is_confirmed:
            # The gap may be ours: a later leader may have appended the batches that we lack.
            self._confirming.ask(leading, pending, self._judge)
        elif verdict.code:
            purgatory.answer(pending, leading, verdict.code, detail=verdict.detail)
        else:
            self._seal(leading, [pending])

    def _why_not(self, leading: Leading, pending: PendingAppend) -> tuple[str, str]:
        core = self._core
        if not core.has_room:
            return "partition-full", "the leader's disk has no room"
        if pending.acks == "leader":
            if core.view.lacks_quorum:
                return "no-quorum", "the leader does not hear a majority of the group"
        elif len(leading.recorded) < leading.least:
            return (
                "not-enough-replicas",
                f"{len(leading.recorded)} in the live replica set, {leading.least} needed",
            )
        return "", ""

    # Sealing of batches

    @property
    def has_more(self) -> bool:
        """Say whether records wait for the end of the turn."""
        return bool(self._dirty)

    def end_turn(self) -> None:
        """Seal the records that wait into batches, and send these to the disk and the followers."""
        dirty, self._dirty = self._dirty, {}
        for leading in dirty.values():
            self._seal_gathered(leading)
            self._in_sync.watch(leading)
            self._catchup.feed_all(leading)
            self._fetching.raised(leading)

    def _seal_gathered(self, leading: Leading) -> None:
        # Records of a request that was answered with a timeout must not be appended.
        gathered = [pending for pending in leading.gathered if not pending.is_answered]
        leading.gathered = []
        while gathered:
            size, number = 0, 0
            for pending in gathered:
                size += len(pending.body)
                if number and (
                    size > self._core.config.memory.batch_bytes
                    or pending.flags != gathered[0].flags
                    or pending.flags & KAFKA  # Readers take the body for one RecordBatch.
                ):
                    break
                number += 1
            self._seal(leading, gathered[:number])
            gathered = gathered[number:]

    def _seal(self, leading: Leading, group: list[PendingAppend]) -> None:
        """Seal the records of some requests into one batch, and set the offsets of each request."""
        core, log = self._core, leading.log
        now_us = max(log.last_us, core.view.wall_now_us())
        name, epoch, sequence = group[0].producer or ("", 0, 0)
        base = log.end
        records = 0
        for pending in group:
            pending.base = base + records
            records += pending.records
        header = BatchHeader(
            base, records, leading.epoch, now_us, now_us, name, epoch, sequence, group[0].flags, 0
        )
        is_packed = leading.compression != COMPRESSIONS[0] and not header.flags & KAFKA
        sealed = seal_compressed if is_packed else seal
        raw = sealed(log.place, header, b"".join([pending.body for pending in group]))
        log.extend([(header_of(raw), raw)])
        self._disk.append(log, [raw])
        core.counters["appended_batches"] += 1
        core.counters["appended_records"] += records
        self._dirty[log.name] = leading
        for pending in group:
            self._purgatory.wait(leading, pending)
