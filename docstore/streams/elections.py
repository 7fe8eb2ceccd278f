"""Elections of leaders by smallest lag: the states of a partition, their timers, the candidates.

ELECTION -> CANDIDATE_FOUND -> ONLINE, or OFFLINE until a replica that may lead is back

Source: Fluvio's replica election (its states, its timer), with two additions. An epoch is allocated
by a conditional update before any replica is fenced with it (rule RF3). Only the copies that the
live replica set names may lead.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from docstore.machines.core import NEVER
from docstore.model.document import NO_BALLOT
from docstore.ownership.by_lag import LED, choose, elected
from docstore.streams.controlled_partition import ControlledPartition
from docstore.streams.core import Core
from docstore.streams.replica_set import Copy, ReplicaSet, Resolution, link_of
from docstore.streams.topic import Topic
from docstore.streams.topics import Topics
from docstore.wire.streams_messages import Fence, Fenced, LogState, Promoted, Rejected, Resign


class Elections:
    """Elects leaders for the partitions of a controller that need one."""

    def __init__(
        self,
        core: Core,
        topics: Topics,
        governed: Mapping[str, ControlledPartition],
        *,
        update: Callable[[ControlledPartition, ReplicaSet], None],
        notify: Callable[[ControlledPartition, str], None],
    ) -> None:
        """update: changes a document.

        notify: sends a document to one replica.
        """
        self._core = core
        self._topics = topics
        self._governed = governed
        self._update = update
        self._notify = notify
        self._open: dict[str, ControlledPartition] = {}
        """Link -> partition, for those in a state that must end."""
        self._unfit_until: dict[str, float] = {}

    def enter(self, known: ControlledPartition) -> None:
        """Begin the work that the state of a partition requires."""
        resolution = known.found.resolution
        self._open[known.link] = known
        if resolution is Resolution.ELECTION:
            known.answers.clear()
            known.fenced_at = NEVER
        elif resolution is Resolution.OFFLINE:
            known.excluded.clear()
            known.alive = self._alive(known)
        elif resolution in LED:
            known.excluded.clear()
            known.is_unclean = False
        if resolution in LED or resolution is Resolution.DELETED:
            self._open.pop(known.link)

    def forget(self, link: str) -> None:
        """Drop a partition that this node no longer governs."""
        self._open.pop(link, None)

    def tick(self) -> None:
        """Advance each open partition."""
        for known in list(self._open.values()):
            self.go_on(known)

    def _alive(self, known: ControlledPartition) -> frozenset[str]:
        return frozenset(node for node in known.eligible_nodes if self._core.view.is_alive(node))

    def elect(self, known: ControlledPartition, why: str) -> None:  # Tests replace this.
        """Begin an election: allocate its epoch first, by an update of the document.

        why: for the log.
        """
        if known.is_updating:
            return
        found = known.found
        self._core.counters["elections"] += 1
        self._core.counters[f"elections because {why}"] += 1
        after = replace(
            found, epoch=found.epoch + 1, leader="", candidate="", resolution=Resolution.ELECTION
        )
        self._update(known, after)

    def go_on(self, known: ControlledPartition) -> None:
        """Advance the election of a partition by its state."""
        if known.is_updating or self._governed.get(known.link) is not known:
            return
        match known.found.resolution:
            case Resolution.ELECTION:
                self._gather(known)
            case Resolution.CANDIDATE_FOUND:
                self._wait_for_candidate(known)
            case Resolution.OFFLINE:
                self._wait_for_eligible(known)

    def _gather(self, known: ControlledPartition) -> None:
        """Fence the replicas; choose once all that are alive have answered, or after `gather_s`."""
        core, found = self._core, known.found
        waited_s = core.now - known.since
        alive = self._alive(known)
        if alive and alive <= known.answers.keys():
            self._choose(known, is_over=waited_s >= core.config.elections.gather_s)
        elif waited_s >= core.config.elections.gather_s:
            self._choose(known, is_over=True)
        if known.is_updating or core.now - known.fenced_at < core.config.elections.gather_s / 2:
            return
        known.fenced_at = core.now
        for node in found.replicas:
            if node not in known.answers:
                core.post(node, Fence, (known.name, found.epoch))

    def fenced(self, sender: str, message: Fenced) -> None:
        """Take the answer of a replica to a fence: its promise, with the state of its log."""
        for fields in message.partitions:
            standing = LogState(*fields)
            known = self._of(standing.name)
            if (
                known is not None
                and known.found.epoch == standing.epoch
                and known.found.resolution is Resolution.ELECTION
                and sender in known.found.replicas
            ):
                known.answers[sender] = standing
                self.go_on(known)

    def _choose(self, known: ControlledPartition, *, is_over: bool) -> None:
        """Record the candidate, and the copies that hold all committed records."""
        found = known.found
        holders = self._holders(known)
        able = holders.keys() - known.excluded
        is_unclean = known.is_unclean and not able
        # No replica that has all committed records can lead: consider any that answered.
        if is_unclean:
            holders = {node: (node, each.copy) for node, each in self._full(known)}
            able = holders.keys() - known.excluded
        fit = {node for node in able - set(found.leaving) if self._is_fit(node)} or able
        chosen = choose(
            {node: (each.adopted, each.end) for node, each in known.answers.items() if node in fit},
            known.rank,
        )
        if chosen is None:
            if is_over:
                self._update(known, replace(found, resolution=Resolution.OFFLINE))
            return
        copies = tuple(holders.values())
        lrs, elr, unclean = found.lrs, found.elr, found.unclean
        if is_unclean:
            self._core.alarm(f"{known.link}: an unclean election may have lost records")
            lrs, elr, copies, unclean = (holders[chosen],), (), (holders[chosen],), found.epoch
        elif known.is_fresh:
            lrs = copies
        lrs, elr = elected(lrs, elr, copies, holders[chosen], found.min_in_sync)
        after = replace(
            found,
            candidate=chosen,
            lrs=lrs,
            elr=elr,
            unclean=unclean,
            resolution=Resolution.CANDIDATE_FOUND,
        )
        self._update(known, after)

    def _holders(self, known: ControlledPartition) -> dict[str, Copy]:  # Tests replace this.
        """Return the copies that answered and hold all committed records (RC5), sorted by node."""
        named = {*known.found.lrs, *known.found.elr}
        return {
            node: (node, each.copy)
            for node, each in self._full(known)
            if (node, each.copy) in named
            or (known.is_fresh and each.end == 0 and each.adopted == NO_BALLOT)
        }

    def _full(self, known: ControlledPartition) -> Iterable[tuple[str, LogState]]:
        """Return the answers of replicas that vouch for their log, sorted by node."""
        return [each for each in sorted(known.answers.items()) if each[1].full]

    def _is_fit(self, node: str) -> bool:
        unfit_until = self._unfit_until.get(node, NEVER)
        return (
            self._core.view.may_own(node)
            and self._core.now >= unfit_until
            and node not in self._core.view.leavers
        )

    def promoted(self, sender: str, message: Promoted) -> None:
        """Record the candidate as the leader, now that its promise is durable."""
        for name, epoch, _ in message.partitions:
            known = self._of(name)
            if known is None or known.found.epoch != epoch:
                continue
            found = known.found
            if found.resolution is Resolution.CANDIDATE_FOUND and found.candidate == sender:
                if not known.is_updating:
                    after = replace(
                        found, leader=sender, candidate="", resolution=Resolution.ONLINE
                    )
                    self._update(known, after)
            elif found.leader == sender:
                self._notify(known, sender)

    def rejected(self, sender: str, message: Rejected) -> None:
        """Elect another candidate if this one rejects the epoch as stale."""
        for name, epoch, code, _, _ in message.partitions:
            known = self._of(name)
            if (
                known is not None
                and code == "stale-epoch"
                and known.found.epoch == epoch
                and known.found.resolution is Resolution.CANDIDATE_FOUND
                and known.found.candidate == sender
            ):
                self._next_candidate(known)

    def _wait_for_candidate(self, known: ControlledPartition) -> None:
        """Elect the next candidate if this one is dead, or did not confirm in time."""
        core = self._core
        waited_s = core.now - known.since
        if waited_s > core.config.elections.confirm_s or not core.view.is_alive(
            known.found.candidate
        ):
            self._next_candidate(known)

    def _next_candidate(self, known: ControlledPartition) -> None:
        known.excluded.add(known.found.candidate)
        self._core.counters["next_candidates"] += 1
        self.elect(known, "its candidate did not answer")

    def _wait_for_eligible(self, known: ControlledPartition) -> None:
        """Elect again when an eligible replica is back, and at intervals while one is alive."""
        alive = self._alive(known)
        waited_s = self._core.now - known.since
        if (
            not alive
            and waited_s > self._core.config.elections.offline_retry_s
            and not known.is_asking
        ):
            # No replica with all committed records is alive: ask whether one without may lead
            # (RF5).
            known.is_asking = True
            self._topics.read(known.name, partial(self._may_be_unclean, known))
        is_due = alive - known.alive or waited_s > self._core.config.elections.offline_retry_s
        if alive and (is_due or known.found.epoch == 0 or known.is_unclean):
            self.elect(known, "a replica is back")

    def _may_be_unclean(
        self, known: ControlledPartition, topic: Topic | None
    ) -> None:  # Tests replace this.
        known.is_asking = False
        known.since = self._core.now
        if topic is not None and topic.unclean:
            known.is_unclean = True

    def resigned(self, sender: str, message: Resign) -> None:
        """Replace a leader that resigns; do not elect one with a stuck disk for `unfit_s`."""
        for name, epoch, why in message.partitions:
            known = self._of(name)
            if known is None or known.found.epoch != epoch or known.found.leader != sender:
                continue
            if why == "stuck":
                self._unfit_until[sender] = self._core.now + self._core.config.elections.unfit_s
            self.elect(known, f"its leader {why}")

    def _of(self, name: str) -> ControlledPartition | None:
        """Return the partition with a name, if this node governs it."""
        known = self._governed.get(link_of(name))
        return known if known is not None and known.name == name else None
