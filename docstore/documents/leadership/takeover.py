"""Take-over: a node becomes the owner of slots (rules T0 to T4, L1).

A node tries when it is the first live member of a slot's replica set and no live node owns the
slot. The steps:

1. Ask whether a quorum would promise (pre-vote).
2. Promise its own ballot, durably, then collect promises from a quorum.
3. Choose the log with the greatest (adopted, end) among them as the base.
4. Bring its own log to the base.
5. Open once a quorum durably holds the base.

One round of messages serves all the slots that the node tries for.

Source: the view change of Viewstamped Replication Revisited (Liskov and Cowling, 2012, section
4.2), started by the member that the hash prefers; pre-vote from Raft (Ongaro, 2014, 9.6).
"""

from collections.abc import Collection, Iterable

from docstore.documents import parts
from docstore.documents.catchup.catchup import CatchUp
from docstore.documents.core import Core
from docstore.documents.depose import depose
from docstore.documents.log import SlotLog
from docstore.documents.owners import claimant, first_alive
from docstore.documents.peers import NEVER
from docstore.documents.term import Follower, Phase, Recovery, Term
from docstore.documents.write_path.decide import Decider
from docstore.documents.write_path.learn import Acceptor
from docstore.model.document import ballot_added, ballots_until, common_end
from docstore.model.slots import from_bitmap, to_bitmap
from docstore.ownership import quorum
from docstore.ownership.ballot import next_ballot
from docstore.storage.store import Corrupt, Result, Rows, Truncate
from docstore.wire import messages

FACTOR_MAX = 32
"""The greatest factor of the back-off, and of the time of an attempt (rule T4)."""


class TakeOver:
    def __init__(self, core: Core, acceptor: Acceptor, decider: Decider, catchup: CatchUp) -> None:
        self.core = core
        self.outbox = core.outbox
        self.acceptor = acceptor
        self.decider = decider
        self.catchup = catchup
        self._round = core.boot << 32
        self._voters: set[str] = set()
        self._votes: dict[int, set[str]] = {}
        """Slot -> nodes that would promise it, in the present pre-vote."""
        self._asked_at = NEVER
        self._not_before = NEVER
        self._backing_off = 1
        self._patience_s = core.config.leadership.attempt_timeout_s
        """Longest time of an attempt without progress.

        It doubles after each failed attempt, because on a slow disk all attempts would fail
        otherwise. A refused or lost pre-vote says nothing about disks and does not count.
        """
        self._without_owner: list[SlotLog] = []
        self._unclaimed_as_of: tuple[int, set[str]] = (-1, set())
        self._attempts: list[tuple[SlotLog, Term]] = []
        self._attempts_as_of = -1

    def forget(self) -> None:
        """Abandon a pre-vote; the next may begin at once."""
        self._votes, self._not_before = {}, self.core.now

    # Trying

    def consider(self) -> None:
        """Try to take over every slot that this node should own and no live node owns."""
        core = self.core
        times = core.config.leadership
        asking = self._votes and core.now - self._asked_at < times.attempt_timeout_s
        if asking or core.now < self._not_before:
            return
        if self._votes:
            self._votes = {}
            self._back_off()
            return
        slots = [log.slot for log in self._unclaimed() if self._should_try(log)]
        if slots:
            self._ask_votes(slots)

    def handed(self, sender: str, message: messages.HandOver) -> None:
        for slot in from_bitmap(message.slots):
            self.core.peers.disclaim(sender, slot)
        self.forget()
        self.consider()

    def _unclaimed(self) -> list[SlotLog]:
        """Return the slots that no live node claims; mostly there are none.

        Cached until claims or liveness change, because every tick asks.
        """
        core = self.core
        alive = {peer for peer in core.peers if core.is_alive(peer)}
        as_of = (core.ownership_changes, alive)
        if self._unclaimed_as_of != as_of:
            no_claim = (0, "")
            claim_of = core.peers.claims.get
            self._unclaimed_as_of = as_of
            self._without_owner = [
                log
                for slot, log in core.logs.items()
                if log.term is None and claim_of(slot, no_claim)[1] not in alive
            ]
        return self._without_owner

    def _should_try(self, log: SlotLog) -> bool:
        if log.term is not None or not log.full or self.core.is_leased(log.slot, self.core.me):
            return False
        if claimant(self.core, log.slot) is not None:
            return False
        return first_alive(self.core, log.slot) == self.core.me and not self._is_early(log.slot)

    def _is_early(self, slot: int) -> bool:
        """Say whether a preferred member may still be starting, as this node has just started."""
        core = self.core
        if core.now - core.started_at >= core.config.leadership.start_grace_s:
            return False
        replicas = core.placement.replicas(slot)
        preferred = replicas[: replicas.index(core.me)]
        return any(core.peers[member].heard_at == NEVER for member in preferred)

    def _ask_votes(self, slots: list[int]) -> None:
        self._round += 1
        self._asked_at = self.core.now
        self._voters = set()
        self._votes = {slot: {self.core.me} for slot in slots}
        self.core.counters["prevotes"] += 1
        bitmap = to_bitmap(slots, self.core.placement.slots)
        for peer in self.core.peers:
            self.outbox.send(peer, messages.PreVote(self._round, bitmap))
        self._count_votes(slots)

    def vote(self, sender: str, message: messages.PreVote) -> None:
        """Answer a pre-vote with the slots that have an owner or a better candidate (T0)."""
        refused = [slot for slot in from_bitmap(message.slots) if self._hears_better(sender, slot)]
        if refused:
            self.core.counters["prevotes_refused"] += 1
        bitmap = to_bitmap(refused, self.core.placement.slots)
        self.outbox.send(sender, messages.PreVoted(message.round, bitmap))

    def _hears_better(self, candidate: str, slot: int) -> bool:
        log = self.core.logs.get(slot)
        if log is None or (log.term and log.term.phase is Phase.OPEN):
            return True
        if self.core.is_leased(slot, candidate):
            return True
        holder = claimant(self.core, slot)
        if holder is not None and holder != candidate:
            return True
        replicas = self.core.placement.replicas(slot)
        before = replicas[: replicas.index(candidate)] if candidate in replicas else replicas
        return first_alive(self.core, slot) in before

    def voted(self, sender: str, message: messages.PreVoted) -> None:
        """Count the answer to a pre-vote; prepare the slots that a quorum would promise."""
        if message.round != self._round or not self._votes:
            return
        refused = set(from_bitmap(message.refused))
        for slot, votes in self._votes.items():
            if slot not in refused:
                votes.add(sender)
        self._count_votes(list(self._votes))
        self._voters.add(sender)
        if self._votes and self._voters >= {
            p for p, peer in self.core.peers.items() if peer.linked
        }:
            self._votes = {}  # All linked members have answered.
            self._back_off()

    def _count_votes(self, slots: Iterable[int]) -> None:
        won = [
            slot
            for slot in slots
            if quorum.is_quorum(self._votes[slot], self.core.logs[slot].voting)
            and self._should_try(self.core.logs[slot])
        ]
        for slot in won:
            del self._votes[slot]
        if won:
            self._prepare(won)

    # Promises

    def _prepare(self, slots: list[int]) -> None:
        """Promise this node's own ballot durably, then ask the others (rule T1)."""
        core = self.core
        ballot = next_ballot(core.logs.epoch_seen, core.me)
        core.logs.epoch_seen = ballot[0]
        core.counters["prepares"] += 1
        deadline = core.now + self._patience_s
        for slot in slots:
            log = core.logs[slot]
            log.promised = ballot
            core.logs.set_term(log, Term(ballot, Phase.PREPARING, Recovery(deadline)))
            core.outbox.save(log)
        message = messages.Prepare(ballot[0], to_bitmap(slots, core.placement.slots))
        own = self.acceptor.promise(ballot[0], [core.logs[slot] for slot in slots])

        def ask() -> None:
            for peer in core.peers:
                core.outbox.send(peer, message)
            self.promised(core.me, own)

        core.outbox.when_durable(ask)

    def promised(self, sender: str, message: messages.Promised) -> None:
        """Collect evidence; fix the base of the slots for which a quorum has promised."""
        for evidence, closed_us in zip(message.evidence, message.closed_us, strict=True):
            log = self.core.logs.get(evidence.slot)
            term = log.term if log else None
            if log is None or term is None or term.phase is not Phase.PREPARING:
                continue
            if term.ballot != (message.epoch, self.core.me):
                continue
            term.recovery.evidence[sender] = evidence
            log.close(closed_us)
            if self.has_evidence(log, term):
                self._recover(log, term)

    def has_evidence(self, log: SlotLog, term: Term) -> bool:  # Tests replace this.
        """Say whether a quorum has promised, and a quorum of undamaged logs is among the promises.

        While the group changes, both sets must promise. Only the old set must report undamaged
        logs: a majority of it has every decided row.
        """
        full = [sender for sender, each in term.recovery.evidence.items() if each.full]
        promised = quorum.is_quorum(term.recovery.evidence, log.voting)
        return promised and quorum.is_quorum(full, log.voting[:1])

    def best(
        self, log: SlotLog, evidence: Collection[messages.Evidence]
    ) -> messages.Evidence:  # Tests replace this.
        """Return the log that holds every decided row: the greatest (adopted, end) (T2)."""
        return max(evidence, key=lambda each: (each.adopted, each.end))

    # Recovering

    def _recover(self, log: SlotLog, term: Term) -> None:
        full = {sender: each for sender, each in term.recovery.evidence.items() if each.full}
        best = self.best(log, full.values())
        term.phase, term.recovery.best = Phase.RECOVERING, best
        term.base = best.end
        term.recovery.deadline = self.core.now + self._patience_s
        term.recovery.identical = {
            sender
            for sender, each in full.items()
            if (each.adopted, each.end) == (best.adopted, best.end)
        }
        term.followers = {
            peer: Follower(acked=0, sent=0)
            for peer in (*log.replicas, *log.learners)
            if peer != self.core.me
        }
        if self.core.me in term.recovery.identical:
            self._root(log, term)
        else:
            self._go_to_common(log, term, best)

    def _go_to_common(self, log: SlotLog, term: Term, best: messages.Evidence) -> None:
        """Truncate this node's log to its common prefix with the best log; fetch the rest."""
        common = common_end(log.ballots, log.end, best.ballots, best.end)
        if common < log.decided or common < best.kept:
            # Every log that a quorum can offer has the decided rows, so this log is damaged.
            self.acceptor.mark_faulty(log, f"slot {log.slot}: what we hold was never decided so")
            return
        if common < log.end:
            self.core.counters["own_cut"] += 1
            log.cut(common)
            self.outbox.store(Truncate(log.slot, common))
            self.outbox.save(log)
        if log.end == term.base:
            self._root(log, term)
        else:
            self._fetch(log, term)

    def _fetch(self, log: SlotLog, term: Term) -> None:
        self.core.counters["fetches"] += 1
        source = min(term.recovery.identical)
        last = min(term.base, log.end + self.core.config.sending.page_rows)
        self.outbox.send(source, messages.Fetch(log.slot, term.ballot[0], log.end + 1, last))

    def fetch(self, sender: str, message: messages.Fetch) -> None:
        """Send a new owner rows, unless this replica has promised a higher ballot since."""
        log = self.core.logs.get(message.slot)
        ballot = (message.epoch, sender)
        if log is None or log.promised != ballot:
            return

        def found(result: Result) -> None:
            if isinstance(result, Corrupt):
                self.core.corrupt(log)
            elif log.promised == ballot:
                rows = parts.whole(result) if result else result
                answer = messages.Fetched(message.slot, message.epoch, message.first, rows)
                self.outbox.send(sender, answer)

        last = min(message.last, log.durable)
        bounds = self.core.config.sending
        self.outbox.read(Rows(message.slot, message.first, last, bounds.page_bytes), found)

    def fetched(self, sender: str, message: messages.Fetched) -> None:
        log = self.core.logs.get(message.slot)
        term = log.term if log else None
        if log is None or term is None or term.recovery.best is None:
            return
        current = term.ballot == (message.epoch, self.core.me)
        if not current or term.phase is not Phase.RECOVERING or log.end >= term.base:
            return
        rows = [row for row in message.rows if log.end < row.n <= term.base]
        if not rows or rows[0].n != log.end + 1:
            return
        log.extend(rows)
        self.outbox.store_rows(log, rows)
        log.ballots = ballots_until(term.recovery.best.ballots, log.end)
        self.outbox.save(log)
        term.recovery.deadline = self.core.now + self._patience_s
        if log.end == term.base:
            self._root(log, term)
        else:
            self._fetch(log, term)

    def _root(self, log: SlotLog, term: Term) -> None:
        """Adopt this node's ballot: its log is at the base. Then have the others adopt it."""
        assert log.end == term.base
        log.adopted = term.ballot
        log.ballots = ballot_added(log.ballots, term.ballot, term.base + 1)
        self.outbox.save(log)
        self.outbox.when_durable(lambda: self.decider.own_disk([(log, term, term.base)]))
        self.catchup.probe_all(log, term)

    # Giving up

    def expire(self) -> None:
        """Abandon attempts that have timed out (rule T4)."""
        core, failed = self.core, False
        if self._attempts_as_of != core.ownership_changes:
            self._attempts_as_of = core.ownership_changes
            terms = core.logs.terms()
            self._attempts = [each for each in terms if each[1].phase is not Phase.OPEN]
        for log, term in self._attempts:
            is_under_way = log.term is term and term.phase is not Phase.OPEN
            if is_under_way and core.now >= term.recovery.deadline:
                depose(core, log)
                core.counters["attempts_failed"] += 1
                failed = True
        if failed:
            self._back_off()
            longest_s = core.config.leadership.attempt_timeout_s * FACTOR_MAX
            self._patience_s = min(2 * self._patience_s, longest_s)

    def opened(self) -> None:
        self._backing_off = 1
        self._patience_s = self.core.config.leadership.attempt_timeout_s

    def _back_off(self) -> None:
        """Wait a random time before the next attempt.

        Its bound doubles with each failure, up to FACTOR_MAX times.
        """
        self._backing_off = min(2 * self._backing_off, FACTOR_MAX)
        bound = self.core.config.leadership.backoff_s * self._backing_off
        self._not_before = self.core.now + self.core.rng.random() * bound
