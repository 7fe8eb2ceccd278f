"""Invariants of leases, turns and fences, at every instant and in every decided row.

A belief begins only at a step of an actor, and ends by a clock. So a check after each such step
finds any two actors that believe in the same thing at one instant of true time.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from docstore.model import json
from docstore.model.document import LEASE, Row
from docstore.model.fences import fences_of
from docstore.model.paths import partition_key
from docstore.ownership.by_store import Turns
from docstore.services.group_document import GROUPS, ROLES
from docstore.services.leases import LEASES, LeasePhase, LeaseState, read_lease
from docstore.services.lock_queue import ELECTIONS, LOCKS, turns_of
from docstore.testing.simulation.world import World
from tests.sim.actors import Actor, Sent
from tests.sim.clocks import RATE_ERROR
from tests.sim.groups_invariants import GroupInvariants
from tests.sim.invariants import Violation

Present = tuple[str, str]
"""(candidate, its lease)."""


class SessionInvariants:
    """Checks actors, and the decided rows of all documents."""

    def __init__(self, world: World) -> None:
        self.checked: Counter[str] = Counter()
        self.versions: dict[str, list[Row]] = {}
        """Link -> its decided versions, in order."""
        self.ended: dict[str, float] = {}
        """Lease -> when its end was decided."""
        self.of_groups = GroupInvariants(world, self.checked)
        self._world = world
        self._claimants: dict[str, list[Actor]] = {}
        """Exclusive thing -> the actors that ever believed to hold it."""
        self._proven: dict[str, float] = {}
        """Lease -> until when it must not end, by the confirmations to its holder."""
        self._given_up: set[str] = set()
        self._expiring: set[str] = set()
        self._resigning: set[tuple[str, str, str]] = set()
        self._transfers: set[tuple[str, str]] = set()
        self._seen: dict[tuple[str, str], int] = {}
        self._rules: Sequence[tuple[Callable[[str], bool], Callable[[Row, Row | None], None]]] = (
            (lambda link: link.startswith(f"{LEASES}/"), self._lease_decided),
            (is_of_turns, self._turns_decided),
            (_is_group, lambda row, before: self.of_groups.decided(row)),
            (lambda link: link.startswith("/t/"), self._guarded_decided),
            (lambda link: link.startswith("/a/"), self._attached_decided),
        )

    def count(self, what: str) -> None:
        """Count what must happen sometimes."""
        self.checked[what] += 1

    # Beliefs

    def after_actor(self, actor: Actor) -> None:
        """SI1: no two actors believe at the same instant that they hold an exclusive thing."""
        for thing in actor.beliefs():
            claimants = self._claimants.setdefault(thing, [])
            if actor not in claimants:
                claimants.append(actor)
            self.checked["SI1"] += 1
            for other in claimants:
                if other is not actor and other.up and thing in other.beliefs():
                    raise Violation(f"SI1: {actor.name} and {other.name} both have {thing}")

    def confirmed(self, lease: str, ttl_s: float, sent: Sent) -> None:
        """SI5: no lease ends within one TTL after its last confirmed request."""
        until = sent.at + ttl_s / (1.0 + RATE_ERROR)
        self._proven[lease] = max(until, self._proven.get(lease, 0.0))
        self._check_end(lease)

    def told_gone(self, lease: str) -> None:
        """SI5: a lease that an answer calls ended has ended, or an operator ends it."""
        self.checked["told_gone"] += 1
        if lease not in self.ended and lease not in self._expiring:
            raise Violation(f"SI5: {lease} was answered as ended, and lives")

    def given_up(self, lease: str) -> None:
        """Note that a holder releases its lease: it may end at any time."""
        self._given_up.add(lease)

    def expires(self, lease: str) -> None:
        """Note that an operator stops the renewal of a lease; its holder learns that it ended."""
        self._expiring.add(lease)

    def seen(self, reader: str, row: Row) -> None:
        """SI4: a version that is seen is decided, and no reader sees an older one after it.

        reader: a client that sends a request once the one before is answered.
        """
        self.checked["SI4"] += 1
        if row not in self.versions.get(row.link, []):
            raise Violation(f"SI4: {reader} has seen {row}, which is not decided")
        newest = self._seen.get((reader, row.link), -1)
        if row.version < newest:
            raise Violation(f"SI4: {reader} has seen version {row.version} after {newest}: {row}")
        self._seen[reader, row.link] = row.version

    def resigns(self, link: str, name: str, lease: str) -> None:
        """Note that a candidate gives its turn up; whether that is decided, and when, is open."""
        self._resigning.add((link, name, lease))

    def may_transfer(self, link: str, to: str) -> None:
        """Note that a holder gives its turn to a waiter; whether that is decided is open."""
        self._transfers.add((link, to))

    # Decided rows

    def decided(self, row: Row) -> None:
        """Check a version against the one before, and keep it."""
        versions = self.versions.setdefault(row.link, [])
        before = versions[-1] if versions else None
        versions.append(row)
        for is_theirs, check in self._rules:
            if is_theirs(row.link):
                check(row, before)

    def _lease_decided(self, row: Row, before: Row | None) -> None:
        lease = None if row.deleted else read_lease(row.state)
        was = None if before is None or before.deleted else read_lease(before.state)
        if was is not None and was.phase is LeasePhase.ENDED and not row.deleted:
            raise Violation(f"SI5: {row.link} had ended, and changes")
        if was is not None and was.phase is not LeasePhase.ENDED and row.deleted:
            raise Violation(f"SI5: {row.link} is deleted before it has ended")
        if lease is not None and lease.phase is LeasePhase.ENDED:
            self.checked[f"lease {lease.why}"] += 1
            self.ended[row.link] = self._world.now
            self._check_end(row.link)

    def _check_end(self, lease: str) -> None:
        self.checked["SI5"] += 1
        ended = self.ended.get(lease)
        early_s = 0.0 if ended is None else self._proven.get(lease, 0.0) - ended
        if early_s > 1e-6 and lease not in self._given_up:
            raise Violation(f"SI5: {lease} ended {early_s:.3f} s before it may")

    def _turns_decided(self, row: Row, before: Row | None) -> None:
        """SI8 and SI2: a queue loses no candidate, keeps its order, and its tokens are versions."""
        was = Turns() if before is None or before.deleted else turns_of(json.load(before.state))
        if row.deleted:
            if _present(was):
                raise Violation(f"SI8: {row.link} is deleted although it has {_present(was)}")
            return
        now = turns_of(json.load(row.state))
        self.checked["SI8"] += 1
        self._check_lost(row.link, was, now)
        there = _present(now)
        stayed = [each for each in _present(was) if each in there]
        if now.holder is not None and (row.link, now.holder.name) in self._transfers:
            stayed, there = (
                [each for each in order if each != there[0]] for order in (stayed, there)
            )
        if there[: len(stayed)] != stayed:
            raise Violation(f"SI8: {row.link} goes from {_present(was)} to {_present(now)}")
        self._check_token(row, was, now)
        self._check_entered(row.link, [each for each in there if each not in _present(was)])

    def _check_entered(self, link: str, entered: Sequence[Present]) -> None:
        """SI10: a candidate whose lease is in the queue's slot enters while that lease lives."""
        for name, named in entered:
            if partition_key(named) != partition_key(link):
                continue
            self.checked["SI10"] += 1
            lease = self.lease(named)
            if lease is None or lease.phase is not LeasePhase.ALIVE or link not in lease.attached:
                raise Violation(f"SI10: {name} enters {link} under {named}, which is {lease}")

    def _check_lost(self, link: str, was: Turns, now: Turns) -> None:
        for name, lease in _present(was):
            is_there = (name, lease) in _present(now)
            if (
                not is_there
                and lease not in self.ended
                and (link, name, lease) not in (self._resigning)
            ):
                raise Violation(f"SI8: {link} has lost {name}, whose lease {lease} lives")

    def _check_token(self, row: Row, was: Turns, now: Turns) -> None:
        self.checked["SI2"] += 1
        granted = now.holder is not None and (
            was.holder is None or not now.holder.is_same(was.holder)
        )
        if granted and now.token != row.version:
            raise Violation(f"SI2: version {row.version} of {row.link} grants token {now.token}")
        if not granted and now.token != was.token:
            raise Violation(f"SI2: the token of {row.link} changes from {was} to {now}")

    def _guarded_decided(self, row: Row, before: Row | None) -> None:
        """F1: the token of a scope never falls, not even over tombstones."""
        now = dict(fences_of(row))
        for scope, token in fences_of(before):
            self.checked["F1"] += 1
            if now.get(scope, -1) < token:
                raise Violation(f"F1: {row.link} {scope} goes from {token} to {now.get(scope)}")

    def _attached_decided(self, row: Row, before: Row | None) -> None:
        """SI7: only documents that name an ended lease are removed."""
        named = None if before is None else json.load(before.state).get(LEASE)
        is_removed = row.deleted or LEASE not in json.load(row.state)
        if is_removed:
            self.checked["SI7"] += 1
            self.checked["swept_late"] += self._world.now - self.ended.get(named, 0.0) > 0.9
            if named not in self.ended:
                raise Violation(f"SI7: {row.link} is removed, and its lease {named} lives")

    # At the end

    def unswept(self, patience_s: float) -> list[str]:
        """SI7: return the documents that name a lease which ended `patience_s` ago."""
        now = self._world.now
        return [
            f"{link} still names {each}, which ended at {self.ended[each]:.3f}"
            for link, rows in sorted(self.versions.items())
            if not rows[-1].deleted
            for each in self._leases_named(link, rows[-1])
            if self.ended.get(each, now) < now - patience_s
        ]

    def _leases_named(self, link: str, row: Row) -> list[str]:
        if link.startswith("/a/"):
            return [json.load(row.state).get(LEASE, "")]
        if is_of_turns(link):
            return [lease for _, lease in _present(turns_of(json.load(row.state)))]
        return [link] if link.startswith(f"{LEASES}/") else []

    def turns(self, link: str) -> Turns:
        """Return the holder and the queue of an election or a lock."""
        rows = self.versions.get(link)
        return Turns() if not rows or rows[-1].deleted else turns_of(json.load(rows[-1].state))

    def lease(self, link: str) -> LeaseState | None:
        """Return the decided state of a lease, None if there is none."""
        rows = self.versions.get(link)
        return None if not rows or rows[-1].deleted else read_lease(rows[-1].state)


def is_of_turns(link: str) -> bool:
    return link.startswith((f"{ELECTIONS}/", f"{LOCKS}/"))


def _is_group(link: str) -> bool:
    return link.rpartition("/")[0] in (GROUPS, ROLES)


def _present(turns: Turns) -> list[Present]:
    present = turns.queue if turns.holder is None else (turns.holder, *turns.queue)
    return [(each.name, each.lease) for each in present]
