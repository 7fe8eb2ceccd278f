"""The leader of a partition: judges, appends, counts, raises the high watermark, and answers.

In: Produce of entry nodes, Attach and Acked of followers, this node's own disk. Out: one sealed
batch per partition and turn (a batch of its own for each request of an idempotent producer), sent
to the followers while the own disk is at it; Produced, once the records are committed.
"""

import heapq
from collections.abc import Callable

from docstore.model.document import NO_BALLOT
from docstore.ownership.by_lag import high_watermark
from docstore.streams.batch import Header, header_of, seal
from docstore.streams.catchup import CatchUp
from docstore.streams.core import Core
from docstore.streams.leading import FollowerState, Leading, Pending
from docstore.streams.log import PartitionLog
from docstore.streams.messages import Acked, Attach, Produce, Produced, Rejected, Standing
from docstore.streams.replica_set import ReplicaSet


class Leader:
    """All partitions that this node leads."""

    def __init__(self, core: Core, catchup: CatchUp) -> None:
        self._core = core
        self._catchup = catchup
        self.leading: dict[str, Leading] = {}
        self.raised: Callable[[Leading], None] = lambda leading: None
        """Told when there is more to read, for either isolation."""
        self.opened: Callable[[Leading], None] = lambda leading: None
        """Told when a reign begins."""
        self.watch: Callable[[Leading], None] = lambda leading: None
        """Told when followers have more to acknowledge, or one has shown what it has."""
        self.doubted: Callable[[Leading], None] = lambda leading: None
        """Told when something speaks for a document that we do not know yet."""
        self.confirm: Callable[[Leading, Pending], None] = lambda leading, pending: None
        """Has records judged again once it is known whether our epoch stands."""
        self.heard: Callable[[Leading], None] = lambda leading: None
        """Told when a follower has answered."""
        self._dirty: dict[str, Leading] = {}
        self._deadlines: list[tuple[float, int, Pending]] = []
        self._waiting = 0
        self._waiting_bytes = 0
        core.appended = self._appended

    # Reigns

    def open(self, log: PartitionLog, found: ReplicaSet) -> Leading:
        """Be the candidate of an epoch: followers may attach, producers wait for the election."""
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
            followers={},
        )
        self.place(leading, found)
        core.counters["leads_opened"] += 1
        self.opened(leading)
        return leading

    def place(self, leading: Leading, found: ReplicaSet) -> None:
        """Know the replicas that the document names, and what they must keep to."""
        core = self._core
        leading.recorded, leading.eligible = found.lrs, found.elr
        leading.least = found.min_in_sync
        leading.max_lag_ms, leading.max_lag_records = found.max_lag_ms, found.max_lag_records
        named = [node for node in (*found.replicas, *found.adding) if node != core.me]
        for node in named:
            if node not in leading.followers:
                follower = leading.followers[node] = FollowerState(node)
                follower.linked_at = follower.caught_up_at = core.now
        for node in leading.followers.keys() - set(named):
            del leading.followers[node]
        self._catchup.behind[leading.log.name] = leading
        self.advance(leading)

    def serve(self, leading: Leading) -> None:
        """The document names us: take what producers have sent meanwhile."""
        leading.is_online = True
        self.release(leading)

    def close(self, log: PartitionLog) -> None:
        """Lead no more. Who waits is told whether the records may be in a log."""
        leading = self.leading.pop(log.name, None)
        if leading is None:
            return
        core = self._core
        core.counters["leads_closed"] += 1
        self._dirty.pop(log.name, None)
        self._catchup.behind.pop(log.name, None)
        for pending in (*leading.held, *leading.gathered):
            self._answer(pending, log, "not-leader")
        for _, _, pending in (*leading.committing, *leading.storing):
            self._answer(pending, log, "not-leader", appended=True)
        self.raised(leading)

    # Producers

    def produce(self, sender: str, message: Produce) -> None:
        """Take records, or say why not: nothing is appended then."""
        core = self._core
        pending = Pending(
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
            log = core.logs.get(message.name)
            known = log.replica_set if log is not None else None
            hint = known.leader if known and known.leader != core.me else ""
            core.send(sender, _produced(pending, "not-leader", "", hint))
            return
        config = core.config
        if (
            self._waiting >= config.waiting_max
            or self._waiting_bytes + len(pending.body) > config.waiting_bytes_max
        ):
            core.send(sender, _produced(pending, "too-many-waiting", "this node is overloaded", ""))
            return
        self._waiting += 1
        self._waiting_bytes += len(pending.body)
        heapq.heappush(self._deadlines, (pending.deadline, core.next_token(), pending))
        if leading.holds:
            leading.held.append(pending)
        else:
            self._judge(leading, pending)

    def release(self, leading: Leading) -> None:
        """Judge what was held, now that this epoch is known to stand."""
        while leading.held and not leading.holds:
            pending = leading.held.popleft()
            if not pending.is_answered:
                self._judge(leading, pending)

    def _judge(self, leading: Leading, pending: Pending) -> None:
        """Append, wait for the original of a repetition, or refuse."""
        core, log = self._core, leading.log
        code, detail = self._why_not(leading, pending)
        if code:
            self._answer(pending, log, code, detail=detail)
            return
        if pending.producer is None:
            leading.gathered.append(pending)
            self._dirty[log.name] = leading
            return
        self._seal_gathered(leading)  # In the order in which they came.
        expired_us = log.last_us - core.config.producer_expiry_us
        verdict = log.producers.judge(pending.producer, pending.records, expired_us=expired_us)
        if verdict.entry is not None:
            core.counters["repeated"] += 1
            pending.base, pending.repeated = verdict.entry.base, True
            self._wait(leading, pending)
        elif verdict.code and not pending.is_confirmed:
            self.confirm(leading, pending)  # A later leader may have appended more.
        elif verdict.code:
            self._answer(pending, log, verdict.code, detail=verdict.detail)
        else:
            self._seal(leading, [pending])

    def judge_again(self, leading: Leading, pending: Pending, *, stands: bool) -> None:
        """Judge records that were to be refused; stands: whether this epoch did when they came."""
        if not stands or self.leading.get(leading.log.name) is not leading:
            self._answer(pending, leading.log, "not-leader")
        elif not pending.is_answered:
            self._judge(leading, pending)

    def _why_not(self, leading: Leading, pending: Pending) -> tuple[str, str]:
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

    # Appending

    def end_turn(self) -> None:
        """Seal what gathered, and send it on its way to disks and followers."""
        dirty, self._dirty = self._dirty, {}
        for leading in dirty.values():
            self._seal_gathered(leading)
            self.watch(leading)
            self._catchup.feed_all(leading)
            self.raised(leading)

    @property
    def has_more(self) -> bool:
        """Say whether something waits for the end of the turn."""
        return bool(self._dirty)

    def _seal_gathered(self, leading: Leading) -> None:
        # Who was answered meanwhile, that it was too late, must not find its records in the log.
        gathered = [pending for pending in leading.gathered if not pending.is_answered]
        leading.gathered = []
        while gathered:
            size, number = 0, 0
            for pending in gathered:
                size += len(pending.body)
                if number and (
                    size > self._core.config.batch_bytes or pending.flags != gathered[0].flags
                ):
                    break
                number += 1
            self._seal(leading, gathered[:number])
            gathered = gathered[number:]

    def _seal(self, leading: Leading, group: list[Pending]) -> None:
        """Make one batch of requests; each knows its offsets from here on."""
        core, log = self._core, leading.log
        now_us = max(log.last_us, core.view.wall_now_us())
        name, epoch, sequence = group[0].producer or ("", 0, 0)
        base = log.end
        records = 0
        for pending in group:
            pending.base = base + records
            records += pending.records
        header = Header(
            base, records, leading.epoch, now_us, now_us, name, epoch, sequence, group[0].flags, 0
        )
        raw = seal(log.place, header, b"".join([pending.body for pending in group]))
        log.extend([(header_of(raw), raw)])
        core.append(log, [raw])
        core.counters["appended_batches"] += 1
        core.counters["appended_records"] += records
        self._dirty[log.name] = leading
        for pending in group:
            self._wait(leading, pending)

    def _wait(self, leading: Leading, pending: Pending) -> None:  # Seam.
        queue = leading.storing if pending.acks == "leader" else leading.committing
        heapq.heappush(queue, (pending.end, self._core.next_token(), pending))
        self._settle(leading)

    # Counting

    def attach(self, sender: str, message: Attach) -> None:
        """A follower shows what it has."""
        core = self._core
        for fields in message.partitions:
            standing = Standing(*fields)
            leading = self.leading.get(standing.name)
            if leading is None or leading.epoch != standing.epoch:
                core.post(sender, Rejected, self._rejection(standing))
                continue
            follower = leading.followers.get(sender)
            if follower is None:
                why = (standing.name, standing.epoch, "unknown-replica", NO_BALLOT, core.me)
                core.post(sender, Rejected, why)
                self.doubted(leading)
                continue
            if follower.copy != standing.copy:
                # Other data: nothing that was acknowledged for those before holds for these.
                follower.copy, follower.acked, follower.has_joined = standing.copy, 0, False
                follower.in_step_since = None
            follower.is_full = standing.full
            unclean = leading.log.replica_set.unclean if leading.log.replica_set else 0
            if standing.full and standing.adopted[0] >= unclean:
                # What is committed stays committed, whoever knows of it (rule RC9).
                self._raise(leading, min(standing.high, leading.log.end))
            self.watch(leading)
            if standing.full or (sender, standing.copy) not in leading.required:
                self._catchup.attach(leading, follower, standing)

    def _rejection(self, standing: Standing) -> tuple[str, int, str, tuple[int, str], str]:
        log = self._core.logs.get(standing.name)
        leader = log.replica_set.leader if log and log.replica_set else ""
        promised = log.promised if log else (0, "")
        return (standing.name, standing.epoch, "not-leader", promised, leader)

    def acked(self, sender: str, message: Acked) -> None:
        """A follower's disk has come so far."""
        for name, epoch, copy, end, probe in message.partitions:
            leading = self.leading.get(name)
            if leading is None or leading.epoch != epoch:
                continue
            follower = leading.followers.get(sender)
            if follower is None:
                continue
            if follower.copy != copy:
                self._core.post(sender, Rejected, (name, epoch, "not-attached", NO_BALLOT, ""))
                continue
            follower.probe = max(follower.probe, probe)
            self._catchup.acked(leading, follower, end)
            self.advance(leading)
            self.heard(leading)

    def trimmed(self, leading: Leading) -> None:
        """The log starts later now: followers are told when they are told anything."""
        self._catchup.behind[leading.log.name] = leading

    def probe(self, leading: Leading, follower: FollowerState) -> None:
        """Ask a follower whether our epoch still stands."""
        self._catchup.ask(leading, follower)

    def _appended(self, log: PartitionLog) -> None:
        leading = self.leading.get(log.name)
        if leading is not None:
            self.advance(leading)

    def advance(self, leading: Leading) -> None:  # Seam.
        """Raise the high watermark as far as the rule of commit allows (RC1, RC2)."""
        log = leading.log
        if len(leading.recorded) >= leading.least and leading.recorded:
            acks = {
                (follower.node, follower.copy): follower.acked
                for follower in leading.followers.values()
                if follower.has_joined and follower.is_full
            }
            acks[self._core.me, log.copy] = log.durable
            high = high_watermark(acks, leading.required)
            if high is not None:
                self._raise(leading, min(high, log.end))
        self._settle(leading)

    def _raise(self, leading: Leading, high: int) -> None:
        log = leading.log
        if high > log.high:
            log.high = high
            self._core.raised[log.name] = log
            self._catchup.behind[log.name] = leading
            self._settle(leading)
            self.raised(leading)

    def _settle(self, leading: Leading) -> None:
        """Answer whoever waited for what is committed, or stored, now."""
        log = leading.log
        for queue, bound in ((leading.committing, log.high), (leading.storing, log.durable)):
            while queue and queue[0][0] <= bound:
                pending = heapq.heappop(queue)[2]
                self._answer(pending, log, "repeated" if pending.repeated else "")

    # Answers

    def expire(self) -> None:
        """Answer whoever has waited for too long."""
        core = self._core
        while self._deadlines and self._deadlines[0][0] <= core.now:
            pending = heapq.heappop(self._deadlines)[2]
            if pending.is_answered:
                continue
            is_in_log = pending.base >= 0
            code = "undecided" if is_in_log else "no-leader"
            detail = "not committed by the deadline" if is_in_log else "the leader was not sure"
            self._answer(pending, None, code, detail=detail, appended=is_in_log)

    def _answer(
        self,
        pending: Pending,
        log: PartitionLog | None,
        code: str,
        *,
        detail: str = "",
        appended: bool = False,
    ) -> None:
        if pending.is_answered:
            return
        pending.is_answered = True
        self._waiting -= 1
        self._waiting_bytes -= len(pending.body)
        pending.body = b""
        core, ok = self._core, code in ("", "repeated")
        if log is None:
            core.send(pending.entry, _produced(pending, code, detail, "", appended=appended))
            return
        core.send(
            pending.entry,
            Produced(
                pending.id, code, detail, pending.base if ok else -1, pending.records, log.end,
                log.high, log.epoch_of(pending.base)[0] if ok else 0, "", ok or appended,
            ),
        )  # fmt: skip


def _produced(
    pending: Pending, code: str, detail: str, leader: str, *, appended: bool = False
) -> Produced:
    return Produced(pending.id, code, detail, -1, pending.records, 0, 0, 0, leader, appended)
