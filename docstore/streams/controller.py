"""The controller of partitions: whoever owns the slots of their documents elects their leaders.

Source: Fluvio's replica election (its states, its timer), with two things that it lacks: an epoch
is allocated by a conditional update before anybody is fenced with it (rule RF3), and only copies of
the data that the live replica set names may lead. A controller acts by conditional updates alone,
so one that has been replaced cannot act.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from docstore.beside.asking import Survey
from docstore.beside.updates import Updates, tag_of
from docstore.model.document import NO_BALLOT, Row
from docstore.model.operation import Answer
from docstore.ownership.by_lag import choose, elected
from docstore.streams.core import NEVER, Core
from docstore.streams.doubt import Doubts
from docstore.streams.governed import Governed
from docstore.streams.messages import (
    Fence,
    Fenced,
    Notice,
    Promoted,
    Rejected,
    Resign,
    Standing,
)
from docstore.streams.replica_set import Copy, ReplicaSet, Resolution, link_of
from docstore.streams.roles import SERVING, read_replica_set
from docstore.streams.topic import Topic
from docstore.streams.topics import Topics

READS_AT_ONCE = 64


class Controller:
    """All partitions whose documents this node owns."""

    def __init__(self, core: Core, updates: Updates, doubts: Doubts, topics: Topics) -> None:
        self._core = core
        self._topics = topics
        self._updates = updates
        self._doubts = doubts
        self.governed: dict[str, Governed] = {}
        self.entered: Callable[[Governed], None] = lambda found: None
        """Told when a document says something new."""
        self.forgotten: Callable[[Governed], None] = lambda found: None
        """Told when a partition is not ours to govern any more."""
        self._led_by: dict[str, set[str]] = {}
        """Node -> links of the partitions that it leads: a node's death is one look-up."""
        self._electing: dict[str, Governed] = {}
        """Those in a state that something must come of."""
        self._unfit_until: dict[str, float] = {}
        self._reigns = -1
        self._survey = self._surveyed = 0
        """Number of the newest question what lies in our slots, and of the one answered last."""
        self._to_read: list[str] = []
        self._reading = 0

    # What documents say

    def learn(self, row: Row) -> None:
        """Take a decided version of a replica-set document, if it is ours to govern."""
        known = self.governed.get(row.link)
        if known is not None and tag_of(row) <= known.tag:
            return
        if row.deleted or not self._core.view.owns(row.link):
            self.forget(row.link)
            return
        found = read_replica_set(row.state)
        if found is None:
            return
        before = known.found if known is not None else None
        if known is None or before is None or before.incarnation != found.incarnation:
            self.forget(row.link)
            known = Governed(row.link, tag_of(row), found, row.state, self._core.now)
            self.governed[row.link] = known
        else:
            self._led_by.get(before.leader, set()).discard(row.link)
            for node in set(before.replicas) - set(found.replicas):
                self._core.post(node, Notice, (row.link, *tag_of(row), row.state))
            known.tag, known.found, known.state = tag_of(row), found, row.state
            known.since = self._core.now
        self._enter(known)

    def forget(self, link: str) -> None:
        """Govern a partition no more."""
        known = self.governed.pop(link, None)
        if known is not None:
            self._led_by.get(known.found.leader, set()).discard(link)
            self._electing.pop(link, None)
            self.forgotten(known)

    def _enter(self, known: Governed) -> None:
        """Begin what the state of a partition asks for."""
        found = known.found
        self._electing[known.link] = known
        if found.resolution is Resolution.ELECTION:
            known.answers.clear()
            known.fenced_at = NEVER
        else:
            self.notify(known)
        if found.resolution in SERVING:
            self._electing.pop(known.link)
            known.excluded.clear()
            known.is_unclean = False
            self._led_by.setdefault(found.leader, set()).add(known.link)
        elif found.resolution is Resolution.OFFLINE:
            known.excluded.clear()
            known.alive = self._alive(known)
        elif found.resolution is Resolution.DELETED:
            self._electing.pop(known.link)
        self.entered(known)
        self._go_on(known)

    def notify(self, known: Governed, to: str | None = None) -> None:
        """Tell replicas, or one of them, what the document says."""
        found = known.found
        item = (known.link, *known.tag, known.state)
        for node in dict.fromkeys((*found.replicas, *found.adding, *found.leaving)):
            if to is None or node == to:
                self._core.post(node, Notice, item)

    def _alive(self, known: Governed) -> frozenset[str]:
        return frozenset(node for node in known.eligible_nodes if self._core.view.is_alive(node))

    # Time

    def tick(self) -> None:
        """See who is gone, and go on with elections."""
        core = self._core
        if core.view.reigns != self._reigns:
            self._reigns = core.view.reigns
            for link in [link for link in self.governed if not core.view.owns(link)]:
                self.forget(link)
            self._survey = core.next_token()
            core.emit(Survey(self._survey))
        self._read_more()
        for node, links in list(self._led_by.items()):
            if not links:
                del self._led_by[node]
            elif not core.view.is_alive(node) and self._doubts.is_gone(node, self._near(links)):
                for link in sorted(links):
                    self.elect(self.governed[link], "its leader is gone")
        for known in list(self._electing.values()):
            self._go_on(known)

    def _near(self, links: set[str]) -> frozenset[str]:
        """Return the nodes that are with the leader in a replica set, so should hear it."""
        near: set[str] = set()
        for link in links:
            near.update(self.governed[link].found.replicas)
        return frozenset(near)

    @property
    def knows_all(self) -> bool:
        """Say whether all documents in the slots that we own have been read."""
        is_surveyed = self._surveyed == self._survey and self._reigns == self._core.view.reigns
        return is_surveyed and not self._to_read and not self._reading

    def surveyed(self, token: int, rows: Sequence[Row]) -> None:
        """Read the documents that lie in slots of ours: what a disk holds need not be decided."""
        self._surveyed = token
        self._to_read = [
            row.link
            for row in rows
            if row.link not in self.governed or tag_of(row) > self.governed[row.link].tag
        ]
        self._read_more()

    def _read_more(self) -> None:
        while self._to_read and self._reading < READS_AT_ONCE:
            link = self._to_read.pop()
            if self._core.view.owns(link):
                self._reading += 1
                self._updates.read(link, partial(self._read, link))

    def _read(self, link: str, answer: Answer) -> None:
        """Updates has told everybody of the row; one that could not be read is read again."""
        self._reading -= 1
        if answer.status >= 500:
            self._to_read.insert(0, link)
        elif answer.row is not None:
            self._updates.learn(answer.row)

    def link_made(self, peer: str) -> None:
        """What was told before may be lost."""
        for known in self.governed.values():
            if known.found.resolution is not Resolution.ELECTION:
                self.notify(known, peer)
            else:
                known.fenced_at = NEVER

    # Elections

    def elect(self, known: Governed, why: str) -> None:  # Seam.
        """Begin an election: the epoch is allocated first, and fences from then on."""
        if known.is_updating:
            return
        found = known.found
        self._core.counters["elections"] += 1
        self._core.counters[f"elections because {why}"] += 1
        after = replace(
            found, epoch=found.epoch + 1, leader="", candidate="", resolution=Resolution.ELECTION
        )
        self.update(known, after)

    def _go_on(self, known: Governed) -> None:
        if known.is_updating or self.governed.get(known.link) is not known:
            return
        match known.found.resolution:
            case Resolution.ELECTION:
                self._gather(known)
            case Resolution.CANDIDATE_FOUND:
                self._wait_for_candidate(known)
            case Resolution.OFFLINE:
                self._wait_for_eligible(known)

    def _gather(self, known: Governed) -> None:
        """Fence the replicas; choose once all that are alive have answered, or time is over."""
        core, found = self._core, known.found
        waited_s = core.now - known.since
        alive = self._alive(known)
        if alive and alive <= known.answers.keys():
            self._choose(known, is_over=waited_s >= core.config.gather_s)
        elif waited_s >= core.config.gather_s:
            self._choose(known, is_over=True)
        if known.is_updating or core.now - known.fenced_at < core.config.gather_s / 2:
            return
        known.fenced_at = core.now
        for node in found.replicas:
            if node not in known.answers:
                core.post(node, Fence, (known.name, found.epoch))

    def fenced(self, sender: str, message: Fenced) -> None:
        """A replica has promised, and says what it has."""
        for fields in message.partitions:
            standing = Standing(*fields)
            known = self._of(standing.name)
            if (
                known is not None
                and known.found.epoch == standing.epoch
                and known.found.resolution is Resolution.ELECTION
                and sender in known.found.replicas
            ):
                known.answers[sender] = standing
                self._go_on(known)

    def _choose(self, known: Governed, *, is_over: bool) -> None:
        """Record the candidate, and with it who holds all that is committed."""
        found = known.found
        holders = self._holders(known)
        able = holders.keys() - known.excluded
        fit = {node for node in able - set(found.leaving) if self._is_fit(node)} or able
        chosen = choose(
            {node: (each.adopted, each.end) for node, each in known.answers.items() if node in fit},
            known.rank,
        )
        if chosen is None:
            if is_over:
                self.update(known, replace(found, resolution=Resolution.OFFLINE))
            return
        copies = tuple(holders.values())
        lrs, elr, unclean = found.lrs, found.elr, found.unclean
        if known.is_unclean:
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
        self.update(known, after)

    def _holders(self, known: Governed) -> dict[str, Copy]:  # Seam.
        """Return the answers of copies that hold all that is committed (rule RC5), in order."""
        named = {*known.found.lrs, *known.found.elr}
        return {
            node: (node, each.copy)
            for node, each in sorted(known.answers.items())
            if each.full
            and (
                known.is_unclean
                or (node, each.copy) in named
                or (known.is_fresh and each.end == 0 and each.adopted == NO_BALLOT)
            )
        }

    def _is_fit(self, node: str) -> bool:
        unfit_until = self._unfit_until.get(node, NEVER)
        return (
            self._core.view.may_own(node)
            and self._core.now >= unfit_until
            and node not in self._core.view.leavers
        )

    def promoted(self, sender: str, message: Promoted) -> None:
        """The candidate's promise is durable: it leads."""
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
                    self.update(known, after)
            elif found.leader == sender:
                self.notify(known, sender)

    def rejected(self, sender: str, message: Rejected) -> None:
        """A candidate cannot lead, or a replica has promised more than it was asked for."""
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

    def _wait_for_candidate(self, known: Governed) -> None:
        """Wait for the candidate to say that it leads: then for the next one."""
        core = self._core
        waited_s = core.now - known.since
        if waited_s > core.config.confirm_s or not core.view.is_alive(known.found.candidate):
            self._next_candidate(known)

    def _next_candidate(self, known: Governed) -> None:
        known.excluded.add(known.found.candidate)
        self._core.counters["next_candidates"] += 1
        self.elect(known, "its candidate did not answer")

    def _wait_for_eligible(self, known: Governed) -> None:
        """Try again when somebody is back who may lead, and now and then while one is there."""
        alive = self._alive(known)
        waited_s = self._core.now - known.since
        if not alive and waited_s > self._core.config.offline_retry_s and not known.is_asking:
            # Nobody is there who has all that is committed: may somebody lead who has not? (RF5)
            known.is_asking = True
            self._topics.read(known.name, partial(self._may_be_unclean, known))
        is_due = alive - known.alive or waited_s > self._core.config.offline_retry_s
        if alive and (is_due or known.found.epoch == 0 or known.is_unclean):
            self.elect(known, "somebody is back")

    def _may_be_unclean(self, known: Governed, topic: Topic | None) -> None:  # Seam.
        known.is_asking = False
        known.since = self._core.now
        if topic is not None and topic.incarnation == known.found.incarnation and topic.unclean:
            known.is_unclean = True

    def resigned(self, sender: str, message: Resign) -> None:
        """A leader wants to be replaced; one whose disk is stuck is passed over for a while."""
        for name, epoch, why in message.partitions:
            known = self._of(name)
            if known is None or known.found.epoch != epoch or known.found.leader != sender:
                continue
            if why == "stuck":
                self._unfit_until[sender] = self._core.now + self._core.config.unfit_s
            self.elect(known, f"its leader {why}")

    # Updates

    def _of(self, name: str) -> Governed | None:
        """Return the partition of that name, if it is ours."""
        known = self.governed.get(link_of(name))
        return known if known is not None and known.name == name else None

    def update(self, known: Governed, after: ReplicaSet) -> None:
        """Change a document of ours, from what is known of it."""
        if not self._core.view.owns(known.link):
            self.forget(known.link)
            return
        known.is_updating = True
        self._updates.change(
            known.link,
            known.tag,
            after.pack(),
            lambda row, is_done: self._updated(known),
            is_relevant=lambda: self.governed.get(known.link) is known,
        )

    def _updated(self, known: Governed) -> None:
        """The fate of an update is known, and `learn` has been told of the document."""
        known.is_updating = False
        if self.governed.get(known.link) is known:
            self._go_on(known)
