"""A follower of a partition: attach to the leader, truncate what it lacks, append, acknowledge.

In: Adopt and Append of the leader. Out: Attach, when a leader is known and its batches do not begin
at the end of this log; Acked, once new batches are durable. A log that joined under a ballot is a
prefix of its leader's, and is never truncated again under that ballot: its acknowledgements stay
valid.
"""

from collections.abc import Sequence

from docstore.machines.core import NEVER
from docstore.model.document import NO_BALLOT, Ballot, Ballots, ballots_until
from docstore.model.streams_batch import SPARSE, BatchHeader, verified
from docstore.storage.partitions import CorruptPartition, ErasePartition, Oldest, PartitionResult
from docstore.streams.catchup import OUTDATED
from docstore.streams.core import Core
from docstore.streams.disk import WHOLE, Disk
from docstore.streams.fencing import Fencing
from docstore.streams.log import PartitionLog, PartitionLogs
from docstore.streams.replicas import Replicas
from docstore.wire.streams_messages import Adopt, Append, Attach, Rejected

SEEK_INTERVAL_S = 0.05
"""Pause between two attempts to join, while batches arrive that do not continue our log."""


class LeaderState:
    """State of a leader, as its follower knows it."""

    __slots__ = (
        "asked_at", "ballot", "ballots", "base", "heard_at", "is_compared", "leader", "unclean",
    )  # fmt: skip

    def __init__(self, leader: str, epoch: int, unclean: int, now: float) -> None:
        """unclean: epoch of the last unclean election."""
        self.leader = leader
        self.ballot: Ballot = (epoch, leader)
        self.unclean = unclean
        self.base = 0
        self.ballots: Ballots = ()
        """Ballots of the leader's log, once this follower has joined."""
        self.is_compared = False
        """Whether our log was checked after the unclean election of this leader."""
        self.asked_at = NEVER
        self.heard_at = now


class FollowedPartitions:
    """Follows the leaders of the partitions that this node has a replica of."""

    def __init__(
        self,
        core: Core,
        logs: PartitionLogs,
        disk: Disk,
        *,
        replicas: Replicas,
        fencing: Fencing,
    ) -> None:
        self._core = core
        self._logs = logs
        self._disk = disk
        self._replicas = replicas
        self._fencing = fencing
        self.following: dict[str, LeaderState] = {}
        self._seeking: dict[str, PartitionLog] = {}
        """Partitions that have not joined their leader."""

    def follow(self, log: PartitionLog, leader: str, epoch: int, unclean: int) -> None:
        """Follow the leader that a replica-set document names, unless a newer one is known."""
        if (epoch, leader) < log.promised:
            return
        known = self.following.get(log.name)
        if known is not None and known.ballot == (epoch, leader):
            known.unclean = max(known.unclean, unclean)
            return
        self.following[log.name] = LeaderState(leader, epoch, unclean, self._core.now)
        self._seeking[log.name] = log
        self._attach(log)

    def forget(self, log: PartitionLog) -> None:
        """Follow no leader for this partition."""
        self.following.pop(log.name, None)
        self._seeking.pop(log.name, None)

    def link_made(self, peer: str) -> None:
        """Attach again to the leaders at that node: earlier messages may be lost."""
        for name, following in self.following.items():
            if following.leader == peer:
                self.seek(self._logs[name])

    def tick(self) -> None:
        """Attach again where the leader has not answered."""
        core = self._core
        for log in list(self._seeking.values()):
            following = self.following[log.name]
            if core.now - following.asked_at >= core.config.replication.resend_s:
                self._attach(log)

    def seeking_since(self, instant: float) -> list[str]:
        """Return the partitions that have not joined and heard no leader since `instant`."""
        return [name for name in self._seeking if self.following[name].heard_at < instant]

    def is_seeking(self, log: PartitionLog, leader: str) -> bool:
        """Say whether this node waits for that leader to answer its Attach."""
        return log.name in self._seeking and self.following[log.name].leader == leader

    def seek(self, log: PartitionLog) -> None:
        """Send the state of our log to the leader, again and again, until it sends Adopt."""
        if log.name not in self.following:
            return
        self._seeking[log.name] = log
        self._attach(log)

    def _attach(self, log: PartitionLog) -> None:
        """Send the state of our log to the leader once the log is durable, as it is evidence."""
        core, following = self._core, self.following[log.name]
        following.asked_at = core.now
        if core.view.is_linked(following.leader):
            self._disk.when_durable(lambda: self._tell(log, following))

    def _tell(self, log: PartitionLog, following: LeaderState) -> None:
        core = self._core
        if self.following.get(log.name) is not following or not self._logs.holds(log):
            return
        if log.durable < log.end:
            self._disk.when_durable(lambda: self._tell(log, following))
            return
        core.post(following.leader, Attach, log.standing(following.ballot[0]))

    # Messages from the leader

    def adopt(self, sender: str, message: Adopt) -> None:  # Tests replace this.
        """Make our log equal to the leader's up to `common`, then append the message's batches."""
        core = self._core
        log = self._logs.get(message.name)
        if log is None:
            return
        ballot = (message.epoch, sender)
        if not self._fencing.accepts(log, ballot, sender):
            return
        following = self._leader_of(log, ballot, message.unclean)
        if not log.full:
            self._begin_anew(log)
            return
        if log.copy != message.copy:
            self.seek(log)  # The message is about the data before this log began anew.
            return
        if log.joined != ballot and not self._join(log, ballot, message):
            return
        if message.common > log.end:
            # Retention at the leader deleted records that we lack (scenario F27).
            self._restart_at(log, message)
        following.base, following.ballots = message.base, message.ballots
        following.heard_at = core.now
        self._seeking.pop(log.name, None)
        self._take(log, following, message.common, message.batches, probe=0)
        self._learn(log, message.high, message.start)

    def _join(
        self, log: PartitionLog, ballot: Ballot, message: Adopt
    ) -> bool:  # Tests replace this.
        """Truncate the records that the leader lacks, but never a committed one (rule RC7)."""
        core = self._core
        may_lose = log.adopted[0] < message.unclean
        if message.common < log.high and not may_lose and log.adopted != ballot:
            core.alarm(f"{log.name}: {ballot} would cut at {message.common}, below {log.high}")
            log.full = False
            self._disk.save(log)
            return False
        # Below the first batch of the leader's log, the two logs may differ. If the leader was away
        # for longer than retention and was elected uncleanly, our log may even begin above its end.
        is_first = bool(message.producers)
        differs = (is_first and message.common > log.start) or message.common < log.start
        if differs and log.adopted != ballot:
            self._restart_at(log, message)
        if may_lose and self._must_compare(log, message.common):
            self._compare(log, message.common)
            return False
        # If adopted before a restart, the log is already a prefix of the leader's.
        if log.adopted != ballot and message.common < log.end:
            core.counters["cut"] += 1
            log.cut(message.common)
            self._disk.cut(log)
        log.joined = ballot
        self._disk.save(log)
        core.counters["adopted"] += 1
        return True

    def _must_compare(self, log: PartitionLog, common: int) -> bool:
        if common < log.end:
            return True
        return log.high < log.end and not self.following[log.name].is_compared

    def _compare(self, log: PartitionLog, end: int) -> None:  # Tests replace this.
        """Truncate records after an unclean election, once all headers are read.

        Producer state below the cut is read again, as memory holds only the newest committed
        batches. A compacted log begins anew if it may lack a record whose newer one is truncated,
        or never arrived: a rewritten batch above the high watermark is from a leader whose other
        records this log has not got (rule RC13).
        """
        following, cuts = self.following[log.name], log.cuts

        def compare(found: PartitionResult) -> None:
            if not self._logs.holds(log) or log.cuts != cuts:
                return
            if self.following.get(log.name) is not following:
                return  # A later leader may have another log.
            if isinstance(found, CorruptPartition):
                log.full = False
                self._disk.save(log)
                self.seek(log)
                return
            following.is_compared = True
            stored = [each for each in found if isinstance(each, BatchHeader)]
            below = [each for each in (*stored, *(head for head, _ in log.tail)) if each.base < end]
            rewritten = [each.end for each in below if each.flags & SPARSE]
            if rewritten and (end < log.high or max(rewritten) > log.high):
                self._begin_anew(log)
                return
            if end < log.end:
                self._core.counters["cut"] += 1
                log.cut(end)
                log.relearn_producers([each for each in stored if each.base < end])
                self._disk.cut(log)
                self._disk.save(log)
            self.seek(log)

        self._disk.read(Oldest(log.name, WHOLE), compare)

    def _restart_at(self, log: PartitionLog, message: Adopt) -> None:
        """Begin with an empty log at the first batch of the leader's, with its producer state."""
        core = self._core
        core.counters["restarted_at_start"] += 1
        joined = log.joined
        log.clear(message.common, message.producers)
        log.joined, log.ballots = joined, ballots_until(message.ballots, message.common)
        self._disk.store(ErasePartition(log.name))
        self._disk.save(log)

    def _begin_anew(self, log: PartitionLog) -> None:
        """Begin a new, empty copy in place of damaged or old data; it is in no set (RC5)."""
        core = self._core
        core.counters["begun_anew"] += 1
        log.clear(0, b"")
        log.joined, log.copy, log.full = NO_BALLOT, core.new_copy(), True
        self._disk.store(ErasePartition(log.name))
        self._disk.save(log)
        self.seek(log)

    def append(self, sender: str, message: Append) -> None:
        """Append the leader's batches, and acknowledge them once they are durable."""
        core = self._core
        for name, epoch, base, first, high, start, probe, batches in message.partitions:
            log, ballot = self._logs.get(name), (epoch, sender)
            if log is None:
                core.post(sender, Rejected, (name, epoch, "unknown-replica", NO_BALLOT, ""))
                continue
            if not self._fencing.accepts(log, ballot, sender):
                continue
            following = self._leader_of(log, ballot, 0)
            following.heard_at = core.now
            if log.joined != ballot or first > log.end or not following.ballots:
                if core.now - following.asked_at >= SEEK_INTERVAL_S:
                    self.seek(log)
                continue
            self._take(log, following, first, batches, probe=probe)
            self._learn(log, high, start)
            following.base = base

    def _leader_of(self, log: PartitionLog, ballot: Ballot, unclean: int) -> LeaderState:
        """Return the state of the leader of a promised ballot; make it if it is unknown."""
        following = self.following.get(log.name)
        if following is None or following.ballot != ballot:
            following = LeaderState(ballot[1], ballot[0], unclean, self._core.now)
            self.following[log.name] = following
            self._seeking[log.name] = log
        return following

    def _take(
        self,
        log: PartitionLog,
        following: LeaderState,
        first: int,
        batches: Sequence[bytes],
        *,
        probe: int,
    ) -> None:
        core = self._core
        news = self._following_batches(log, first, batches)
        if news is None:
            core.counters["damaged_batches"] += 1
            self.seek(log)
            return
        if news:
            log.extend(news)
            self._disk.append(log, [raw for _, raw in news])
            self._take_terms(log, following)
            core.counters["followed"] += len(news)
        if log.adopted != following.ballot and log.end >= following.base:
            log.adopted = following.ballot
            self._disk.save(log)
        self._disk.acknowledge(following.leader, log, following.ballot[0], probe)

    def _take_terms(self, log: PartitionLog, following: LeaderState) -> None:
        """Take the ballots of the records from the leader, to be persisted with the records."""
        ballots = ballots_until(following.ballots, log.end)
        if ballots != log.ballots:
            log.ballots = ballots
            self._disk.save(log)

    def _following_batches(
        self, log: PartitionLog, first: int, batches: Sequence[bytes]
    ) -> list[tuple[BatchHeader, bytes]] | None:
        """Return the batches that are new here; None if one is damaged or they leave a gap."""
        news: list[tuple[BatchHeader, bytes]] = []
        end, offset = log.end, first
        for raw in batches:
            try:
                header = verified(raw, log.place)
            except ValueError:
                return None
            if header.base != offset:
                return None
            offset = header.end
            if header.end <= end:
                continue
            if header.base != end:
                return None
            news.append((header, raw))
            end = header.end
        return news

    def _learn(self, log: PartitionLog, high: int, start: int) -> None:  # Tests replace this.
        """Learn the leader's log start, and its high watermark once all below it are here.

        Until then the log may lack a record whose newer one has not arrived (rule RC13).
        """
        known = high if high <= log.end else min(start, log.end)
        if log.high < known:
            log.high = known
            self._disk.raised[log.name] = log
        start = min(start, log.high)
        if start > log.start:
            self._replicas.trim(log, start)

    def rejected(self, sender: str, log: PartitionLog, epoch: int, code: str) -> None:
        """Attach again, as the leader does not know this log, or anew, as the log is outdated."""
        following = self.following.get(log.name)
        if following is None or following.ballot != (epoch, sender):
            return
        if code == OUTDATED:
            self._begin_anew(log)
        else:
            self.seek(log)
