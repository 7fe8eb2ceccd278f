"""Removal of one rule at a time, from outside: the harness must notice each.

Every rule of the protocol that one wrong line can break has an entry here: the function that
implements it, its replacement, and the profile of faults that exposes the loss. The product has
no code for this.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from docstore.documents import parts
from docstore.documents.core import Core
from docstore.documents.leadership.leases import Leases
from docstore.documents.leadership.takeover import TakeOver
from docstore.documents.log import SlotLog, log_from_disk
from docstore.documents.membership import policy, reconfigure
from docstore.documents.membership.change import advanced as _advanced
from docstore.documents.membership.readiness import Readiness
from docstore.documents.operations import Closed, Operations, Proposed
from docstore.documents.outbox import Outbox
from docstore.documents.replica import Replica
from docstore.documents.retention.trim import Trimmer
from docstore.documents.term import Follower, Phase, Recovery, Term
from docstore.documents.write_path import dedup_rebuild
from docstore.documents.write_path import handle as handling
from docstore.documents.write_path.append import Appender
from docstore.documents.write_path.atomic_batch import AtomicBatches
from docstore.documents.write_path.confirm import Confirmer
from docstore.documents.write_path.decide import Decider
from docstore.documents.write_path.forward import Gateway
from docstore.documents.write_path.in_flight import InFlightProposals
from docstore.documents.write_path.learn import Acceptor
from docstore.documents.write_path.past_reads import PastReads
from docstore.documents.write_path.serve import Owner
from docstore.model.document import Row
from docstore.ownership import ballot as fence
from docstore.ownership import quorum
from docstore.ownership.by_vote import Voter
from docstore.ownership.configuration import Configuration, Stage
from docstore.storage.store import Result
from docstore.wire.messages import Offer, Promised, Propose
from tests.sim.aims import (
    BASIC,
    BUNDLES,
    CHANGES,
    CLOCKS,
    COUNTED,
    CRASHES,
    CUTS,
    INSTANTS,
    LEASES,
    LOADS,
    PARTS,
    REPEATS,
    SLOW_DISKS,
    TAKEOVERS,
    TRIMS,
    VOTES,
)
from tests.sim.profiles import FULL_DISKS
from tests.sim.taken_away import Ablation, always, changed, never, nothing


def _own_evidence(self: TakeOver, log: Any, evidence: Any) -> Any:
    own = log.term.recovery.evidence.get(self.core.me)
    return own or max(evidence, key=lambda each: (each.adopted, each.end))


def _longest(self: TakeOver, log: Any, evidence: Any) -> Any:
    return max(evidence, key=lambda each: (each.end, each.adopted))


def _one_promise(self: TakeOver, log: Any, term: Term) -> bool:
    return self.core.me in term.recovery.evidence


def _open_at_once(self: Decider, log: Any, term: Term) -> bool:
    return term.ends.get(self.core.me, -1) >= term.base


def _over_a_hole(self: Acceptor, log: Any, ballot: Any, offer: Any) -> bool:
    return bool(offer.first <= log.end + 1 if log.adopted == ballot else offer.first == log.end + 1)


def _live_majority(heard: Any, sets: Any) -> bool:
    return all(any(each in heard for each in replicas) for replicas in sets)


def _live_decided(ends: Any, sets: Any) -> int:
    return max(ends.values(), default=-1)


def _lease_from_now(self: Confirmer, asked: Any) -> float:
    return self.core.now


def _lease_for_ever(self: Confirmer, asked: Any, log: SlotLog) -> None:
    if log.term is not None:
        log.term.lease_until = self.core.now + 1e9


def _forgets_leases(self: Leases, slot: int, candidate: str, now: float) -> bool:
    """Keep only the leases that were granted since the start."""
    _, owner, until = self._granted.get(slot, (0, "", 0.0))
    return now < until and owner != candidate


def _floor_as_it_was(self: Trimmer, log: SlotLog, tombstones: Any) -> int:
    return log.floor


def _all_decided(self: Trimmer, log: SlotLog) -> int:
    return log.decided


_flush = Outbox.flush


def _tell_before_disk(self: Outbox) -> None:
    """Send what must wait for the disk as soon as the turn ends."""
    batch = self.batch
    _flush(self)
    if batch in self.unfinished and batch.writes:
        self._release(batch)
        for then in batch.then:
            then()
        batch.accepted, batch.then, batch.ends = {}, [], {}


def _no_find(self: Owner, log: Any, inflight: Any) -> None:
    return None


_loaded = Owner._loaded


def _once_is_enough(self: Owner, log: SlotLog, term: Term, found: Mapping[str, Result]) -> None:
    """Execute all operations that waited for a look-up, without a check for repetitions."""
    with patch.object(Owner, "_is_repetition", never):
        _loaded(self, log, term, found)


def _fresh_identity(self: Gateway, pending: Any) -> int:
    return int(pending.seq * 1000 + pending.attempt)


def _plain_refusal(self: Gateway, pending: Any, refusal: Any) -> Any:
    return refusal


def _newest(self: Owner, head: Any) -> Row | None:
    return head.newest  # type: ignore[no-any-return]


def _restart_numbers(head: Row | None, floor: int) -> int:
    return 0 if head is None or head.deleted else head.version + 1


def _is_fenced_by_epoch(promised: Any, ballot: Any) -> bool:
    return bool(ballot[0] < promised[0])


_init = Replica.__init__
_use = Replica._use


def _resume(self: Replica, *arguments: Any, **keywords: Any) -> None:
    """Continue as owner after a restart, under the ballot on the disk."""
    _init(self, *arguments, **keywords)
    for log in self.core.logs.values():
        if log.promised[1] == self.core.me and log.adopted == log.promised:
            term = Term(log.promised, Phase.OPEN, Recovery(float("inf")), base=log.end)
            self.core.logs.set_term(log, term)
            term.ends = {self.core.me: log.end}
            term.recovery.identical = set(log.replicas)
            term.recovered = True
            log.decided = log.end
            others = [peer for peer in log.replicas if peer != self.core.me]
            term.followers = {peer: Follower(acked=0, sent=log.end) for peer in others}


def _numbered(self: Acceptor, message: Propose, taken: list[Offer]) -> bool:
    return message.number > 0


def _one_number(self: InFlightProposals, offers: Sequence[Offer], peers: Sequence[str]) -> Propose:
    """Give all messages of an instant the same number, and remember them as one."""
    number = int(self.core.now * 1e6)
    reached = [self._reached(offer) for offer in offers]
    for peer in peers:
        self._newer[peer, number] = [*self._newer.get((peer, number), ()), *reached]
    return Propose(offers, self.core.boot, number)


_gap: Callable[..., None] = Acceptor._gap


def _gap_counts(self: Acceptor, sender: str, log: Any, epoch: int) -> None:
    """Acknowledge rows that leave a gap: they are counted before the log is adopted."""
    self.core.outbox.accept(sender, log, epoch)
    _gap(self, sender, log, epoch)


def _skip_joint(now: Configuration) -> Configuration:
    """Skip from learning to the next members."""
    return _advanced(replace(now, stage=Stage.JOINT))


def _begin_full(core: Core, slot: int) -> SlotLog:
    """Treat a slot that moves to this node as full, although it is empty."""
    log = log_from_disk(slot, core.placement, None)
    core.logs[slot] = log
    core.outbox.save(log)
    return log


def _use_and_stay(self: Replica, configuration: Configuration) -> None:
    """Use another configuration without a new prepare."""
    with patch.object(reconfigure, "depose", nothing):
        _use(self, configuration)


def _vote_again(
    self: Voter, now: float, candidate: str, generation: int, *_: Any, pre: bool
) -> bool:
    """Vote for every candidate that asks."""
    if not pre:
        self.observe(generation, now)
    return generation >= self.generation


def _all_that_is_there(self: Owner, cached: Any, service: Any) -> int:
    return 0


def _counts_nothing(self: Trimmer) -> dict[str, int]:
    return {}


def _what_is_here(self: Trimmer, log: SlotLog, term: Term) -> int:
    """Ignore how far the other replicas are."""
    return min(log.decided, log.durable)


def _all_rows(rows: Sequence[Row]) -> Sequence[Row]:
    return rows


def _past_of_the_living(self: Core) -> int:
    """Use the upper median of the clocks of the nodes that are heard."""
    clock, mine = self.clock, self.clock.own_us(0.0)
    heard = [peer.clock_us or mine for name, peer in self.peers.items() if self.is_alive(name)]
    clocks = sorted([mine, *heard])
    return min(mine, clocks[len(clocks) // 2] + clock._apart_us_max) + int(self.now * 1e6)


def _one_after_the_other(self: AtomicBatches, log: SlotLog, at_us: int) -> int:
    return max(at_us, log.updated_us + 1)


_promise = Acceptor.promise


def _without_times(self: Acceptor, epoch: int, logs: Sequence[SlotLog]) -> Promised:
    return _promise(self, epoch, logs)._replace(closed_us=())


def _as_it_is_decided(self: PastReads, log: SlotLog, at_us: int) -> int:
    return min(log.settled_at(at_us), log.decided)


_FORGETTING = (
    (Owner, "find", _no_find), (Operations, "is_over", never),
    (Proposed, "is_over", never), (Closed, "has", never),
)  # fmt: skip
ABLATIONS: dict[str, Ablation] = {
    "an-instant-as-it-is-decided": Ablation(
        "R5", ((PastReads, "until", _as_it_is_decided),), INSTANTS
    ),
    "an-instant-stays-open": Ablation("R5", ((SlotLog, "close", nothing),), INSTANTS),
    "an-instant-dies-with-its-owner": Ablation(
        "R5", ((Acceptor, "promise", _without_times),), INSTANTS
    ),
    "a-batch-without-the-refused": Ablation("A1", ((AtomicBatches, "refusal", nothing),), PARTS),
    "pages-that-part-batches": Ablation("A2", ((parts, "whole", _all_rows),), PARTS),
    "a-batch-of-several-times": Ablation(
        "A3", ((AtomicBatches, "time_of", _one_after_the_other),), PARTS
    ),
    "past-by-the-clocks-of-the-living": Ablation(
        "D6", ((Core, "past_us", _past_of_the_living),), CLOCKS
    ),
    "trim-what-a-key-asks-for": Ablation("SL7", ((Operations, "may_have_keys", never),), REPEATS),
    "keys-end-with-a-start": Ablation("C1", ((Operations, "is_key_over", always),), REPEATS),
    "trim-what-others-lack": Ablation("SL7", ((Trimmer, "held_by_all", _what_is_here),), TRIMS),
    "trim-what-is-counted": Ablation("SL9", ((Trimmer, "counted", _counts_nothing),), COUNTED),
    "trim-before-counts-are-known": Ablation(
        "SL9", ((Trimmer, "knows_what_is_needed", always),), COUNTED
    ),
    "leases-not-kept": Ablation("R2", ((Core, "is_leased", never),), LEASES),
    "leases-from-the-answer": Ablation(
        "R2", ((Confirmer, "leased_from", _lease_from_now),), LEASES
    ),
    "leases-for-ever": Ablation("R2", ((Confirmer, "_lease", _lease_for_ever),), LEASES),
    "leases-forgotten-at-start": Ablation("R2", ((Leases, "keeps_from", _forgets_leases),), LEASES),
    "purge-without-floor": Ablation("D3", ((Trimmer, "floor_over", _floor_as_it_was),), TRIMS),
    "purge-what-others-lack": Ablation("D3", ((Trimmer, "buried_until", _all_decided),), TRIMS),
    "no-joint-phase": Ablation("M2", ((policy, "advanced", _skip_joint),), CHANGES),
    "joint-left-before-all-is-open": Ablation("M3", ((Readiness, "is_complete", always),), CHANGES),
    "any-configuration-counts": Ablation("M2", ((Replica, "is_current", always),), CHANGES),
    "newcomers-begin-full": Ablation("D4", ((reconfigure, "_begin_empty", _begin_full),), CHANGES),
    "reigns-outlive-a-change": Ablation("M2", ((Replica, "_use", _use_and_stay),), CHANGES),
    "two-votes-in-a-generation": Ablation("V1", ((Voter, "asked", _vote_again),), VOTES),
    "no-promise-check": Ablation("P2", ((Acceptor, "is_fenced", never),), TAKEOVERS),
    "own-log-as-base": Ablation("T2", ((TakeOver, "best", _own_evidence),), TAKEOVERS),
    "longest-log-as-base": Ablation("T2", ((TakeOver, "best", _longest),), TAKEOVERS),
    "one-promise": Ablation("T1", ((TakeOver, "has_evidence", _one_promise),), CUTS),
    "open-before-quorum-at-base": Ablation(
        "T3", ((Decider, "may_open", _open_at_once),), TAKEOVERS
    ),
    "accept-over-a-hole": Ablation("P2", ((Acceptor, "joins", _over_a_hole),), TAKEOVERS),
    "count-before-adoption": Ablation("SL6", ((Acceptor, "_gap", _gap_counts),), TAKEOVERS),
    "took-though-one-gapped": Ablation("SL8", ((Acceptor, "is_whole", _numbered),), LOADS),
    "took-without-its-start": Ablation("SL8", ((Decider, "is_of_this_start", always),), LOADS),
    "one-number-for-what-was-split": Ablation(
        "SL8", ((InFlightProposals, "message", _one_number),), LOADS
    ),
    "adopt-cuts-twice": Ablation("SL4", ((Acceptor, "is_late", never),), TAKEOVERS),
    "quorum-of-the-living": Ablation(
        "Q1", ((quorum, "is_quorum", _live_majority), (quorum, "decided_end", _live_decided)), CUTS
    ),
    "tell-before-disk": Ablation("P3", ((Outbox, "flush", _tell_before_disk),), CRASHES),
    "local-read": Ablation("R1", ((Confirmer, "is_confirmed", always),), CUTS),
    "dirty-read": Ablation("R3", ((Owner, "visible", _newest),), CUTS),
    "past-beyond-the-count": Ablation("R4", ((Owner, "first_shown", _all_that_is_there),), COUNTED),
    "past-before-disk": Ablation("R3", ((PastReads, "holds", always),), SLOW_DISKS),
    "retry-without-identity": Ablation("C1", ((Gateway, "identity", _fresh_identity),), TAKEOVERS),
    "forget-operations": Ablation("C1", _FORGETTING, TAKEOVERS),
    "waiting-operations-not-looked-for-again": Ablation(
        "C1", ((Owner, "_loaded", _once_is_enough),), BUNDLES
    ),
    "older-rows-not-looked-at": Ablation("C1", ((dedup_rebuild, "is_known", always),), CRASHES),
    "unknown-told-as-refused": Ablation("C3", ((Gateway, "verdict", _plain_refusal),), CUTS),
    "old-ballot-after-restart": Ablation("B2", ((Replica, "__init__", _resume),), CRASHES),
    "ballots-without-owner": Ablation(
        "B1", ((fence, "is_fenced", _is_fenced_by_epoch),), TAKEOVERS
    ),
    "rows-that-most-disks-cannot-take": Ablation(
        "O8", ((Appender, "is_storable", always),), FULL_DISKS
    ),
    "recreate-restarts-numbers": Ablation(
        "D2", ((handling, "next_version", _restart_numbers),), BASIC
    ),
}


SEED_PROTOCOL = (
    "quorum-of-the-living", "no-promise-check", "own-log-as-base", "retry-without-identity",
    "forget-operations", "unknown-told-as-refused", "local-read",
)  # fmt: skip
"""Rules that the first description of the protocol lacks, all together."""


def ablated(*names: str) -> AbstractContextManager[None]:
    """Run the body without some rules."""
    return changed(*(ABLATIONS[name] for name in names))
