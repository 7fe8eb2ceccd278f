"""Provisioning: the owner of a topic's document creates the partitions that the document names.

The owner, called the topic's controller, first reads each partition's document. It creates a
missing partition, changes one with other settings, and deletes one of an earlier topic of that
name, to create it again. A step that fails is repeated. Every step is conditional on a version that
was read, so a controller that was replaced does no harm. Once all partitions exist, the controller
updates the topic's document.

The document of a deleted topic is deleted at once. Then the topic's controller marks the
partitions, and their controllers delete them (`deletion.py`). Those controllers also find
partitions that were not marked (`topic_audit.py`).
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from docstore.machines.reading import PagedReads
from docstore.machines.updates import Tag, Updates, tag_of
from docstore.model.document import Row
from docstore.model.operation import Answer, Conditions, Operation
from docstore.ownership.by_hash import Placed
from docstore.ownership.by_lag import without
from docstore.streams.assignment import assignments
from docstore.streams.core import Core
from docstore.streams.replica_set import ReplicaSet, Resolution, partition_link, read_replica_set
from docstore.streams.topic import Provision, Topic, read_topic

AT_ONCE = 64
"""Partitions that a controller reads or changes at the same time, over all topics."""
PLANNED_AT_ONCE = 64
RETRY_S = 0.2


@dataclass(slots=True)
class Job:
    """Work on a topic whose partitions differ from its document, or have not been read."""

    link: str
    tag: Tag
    topic: Topic
    is_deleted: bool
    numbers: deque[int] = field(default_factory=deque)
    """Partitions to read next."""
    later: list[tuple[float, int]] = field(default_factory=list)
    """(when to read it again, partition)."""
    under_way: int = 0
    is_waiting: bool = False
    """Whether there are too few members for the partitions still to be created."""
    lacks: bool = False
    is_current: bool = False
    """Whether a read has confirmed that the topic's document is as when the job began."""
    is_ending: bool = False
    plan: dict[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_idle(self) -> bool:
        """Say whether no partition is left to read or change."""
        return not (self.numbers or self.later or self.under_way or self.is_waiting)


class Provisioning:
    """Provisions the topics whose documents this node owns."""

    def __init__(self, core: Core, updates: Updates) -> None:
        self._core = core
        self._updates = updates
        self._jobs: dict[str, Job] = {}
        self._under_way = 0
        self._reading = PagedReads(core.view, updates, self.learn)

    # Documents of topics

    def learn(self, row: Row) -> None:
        """Take a version of a topic's document and begin its job; an old one only costs reads."""
        known = self._jobs.get(row.link)
        if known is not None and tag_of(row) <= known.tag:
            return
        self._jobs.pop(row.link, None)
        topic = read_topic(row.state)
        if topic is None or not self._core.view.owns(row.link):
            return
        if row.deleted or topic.resolution is not Provision.PROVISIONED:
            job = self._jobs[row.link] = Job(row.link, tag_of(row), topic, row.deleted)
            job.numbers.extend(range(topic.partitions))
            self._go_on(job)

    def surveyed(self, links: list[str]) -> None:
        """Read the listed topics: a version found on the disk may not be decided."""
        self._reading.begin(links)

    def tick(self) -> None:
        """Advance the jobs whose partitions are due, or that waited for members."""
        self._reading.go_on()
        for job in list(self._jobs.values()):
            if not self._core.view.owns(job.link):
                del self._jobs[job.link]
                continue
            due = [number for at, number in job.later if at <= self._core.now]
            job.later = [each for each in job.later if each[0] > self._core.now]
            job.numbers.extend(due)
            if job.is_waiting and len(self._members()) >= job.topic.replication_factor:
                job.is_waiting = job.lacks = False
                job.numbers.extend(range(job.topic.partitions))
            self._go_on(job)

    def _members(self) -> list[str]:
        """Return the members that may get replicas: those alive that do not leave."""
        view = self._core.view
        return [each for each in view.members if view.is_alive(each) and each not in view.leavers]

    # Partitions of a topic

    def _go_on(self, job: Job) -> None:
        while job.numbers and self._under_way < AT_ONCE and self._is_ours(job):
            number = job.numbers.popleft()
            job.under_way += 1
            self._under_way += 1
            link = partition_link(job.topic.name, number)
            self._updates.read(link, partial(self._looked, job, number))
        if job.is_idle and not job.is_ending and self._is_ours(job):
            self._end(job)

    def _is_ours(self, job: Job) -> bool:
        return self._jobs.get(job.link) is job

    def _done(self, job: Job) -> None:
        """Count a partition as done for now, and go on with the next ones."""
        job.under_way -= 1
        self._under_way -= 1
        self._go_on(job)

    def _look_again(self, job: Job, number: int, after_s: float = 0.0) -> None:
        if after_s:
            job.later.append((self._core.now + after_s, number))
        else:
            job.numbers.append(number)
        self._done(job)

    def _looked(self, job: Job, number: int, answer: Answer) -> None:
        """Perform the next step towards what the topic says about this partition."""
        row = answer.row
        if not self._is_ours(job):
            self._done(job)
        elif answer.status == 404:
            self._create(job, number, tombstone=row)
        elif not answer.is_success or row is None or (found := read_replica_set(row.state)) is None:
            self._look_again(job, number, RETRY_S)
        elif job.is_deleted:
            if found.incarnation == job.topic.incarnation:
                self._mark(job, number, row, found)
            else:
                self._done(job)
        elif found.incarnation != job.topic.incarnation:
            self._replace(job, number, row, found)
        elif found.resolution is Resolution.DELETED:
            self._look_again(job, number, RETRY_S)
        elif (after := with_settings(found, job.topic)) != found:
            self._change(job, number, row, after)
        else:
            self._done(job)

    def _mark(self, job: Job, number: int, row: Row, found: ReplicaSet) -> None:
        if found.resolution is Resolution.DELETED:
            self._done(job)
        else:
            self._change(job, number, row, replace(found, resolution=Resolution.DELETED))

    def _change(self, job: Job, number: int, row: Row, after: ReplicaSet) -> None:
        self._updates.change(
            row.link,
            tag_of(row),
            after.pack(),
            lambda row, is_done: self._look_again(job, number, 0.0 if is_done else RETRY_S),
            is_relevant=lambda: self._is_ours(job),
        )

    def _create(self, job: Job, number: int, *, tombstone: Row | None) -> None:
        members = self._members()
        if job.is_deleted:
            self._done(job)
            return
        if number not in job.plan and len(members) >= job.topic.replication_factor:
            self._plan(job, number, members)
        if number not in job.plan:
            job.lacks = True
            self._done(job)
            return
        # This node may not know that the topic and its partitions have been deleted meanwhile.
        self._confirm(job, lambda: self._post(job, number, tombstone))

    def _post(self, job: Job, number: int, tombstone: Row | None) -> None:
        if not (self._is_ours(job) and job.is_current):
            self._look_again(job, number, RETRY_S)
            return
        found = ReplicaSet(incarnation=job.topic.incarnation, replicas=job.plan[number])
        body = with_settings(found, job.topic).pack()
        link = partition_link(job.topic.name, number)
        # A late POST must not create again a partition that was created and deleted meanwhile.
        below = tombstone.version + 1 if tombstone is not None else None
        self._core.ask(
            Operation(verb="POST", link=link, body=body, recreate_below=below),
            partial(self._created, job, number),
        )

    def _created(self, job: Job, number: int, answer: Answer) -> None:
        if answer.is_success and answer.row is not None:
            self._core.counters["partitions_created"] += 1
            self._updates.learn(answer.row)
            self._done(job)
        else:
            self._look_again(job, number, RETRY_S)

    def _plan(self, job: Job, number: int, members: list[str]) -> None:
        """Assign replicas to this partition, and to some of those that follow."""
        view = self._core.view
        numbers = range(number, min(number + PLANNED_AT_ONCE, job.topic.partitions))
        planned = assignments(
            job.topic.name,
            numbers,
            [Placed(each, view.zones.get(each, "")) for each in members],
            copies=job.topic.replication_factor,
            owner_of=view.owner_of,
        )
        job.plan.update(planned)

    def _replace(self, job: Job, number: int, row: Row, found: ReplicaSet) -> None:
        """Delete a partition of another incarnation, once ours is confirmed as the current one."""
        if not job.is_current:
            self._confirm(
                job, lambda: self._look_again(job, number, 0 if job.is_current else RETRY_S)
            )
        elif found.resolution is not Resolution.DELETED:
            self._change(job, number, row, replace(found, resolution=Resolution.DELETED))
        else:
            conditions = Conditions(match=[list(tag_of(row))])
            self._core.ask(
                Operation(verb="DELETE", link=row.link, conditions=conditions),
                lambda answer: self._look_again(job, number, 0 if answer.is_success else RETRY_S),
            )

    def _confirm(self, job: Job, then: Callable[[], None]) -> None:
        """Read the topic, set `is_current` to whether it has not changed, then call `then`."""
        job.is_current = False

        def read(answer: Answer) -> None:
            if answer.row is not None:
                self.learn(answer.row)
                job.is_current = tag_of(answer.row) == job.tag
            then()

        self._updates.read(job.link, read)

    # Document of the topic

    def _end(self, job: Job) -> None:
        """Record the outcome in the topic's document once all partitions were read."""
        if job.is_deleted:
            del self._jobs[job.link]
            return
        resolution = Provision.INSUFFICIENT if job.lacks else Provision.PROVISIONED
        job.is_ending = True
        self._updates.change(
            job.link,
            job.tag,
            replace(job.topic, resolution=resolution).pack(),
            lambda row, is_done: self._ended(job),
            is_relevant=lambda: self._is_ours(job),
        )

    def _ended(self, job: Job) -> None:
        """Wait for members if replicas are lacking; otherwise read the partitions again."""
        job.is_ending = False
        if self._is_ours(job) and job.lacks:
            job.is_waiting = True
        elif self._is_ours(job):
            job.later.extend((self._core.now + RETRY_S, n) for n in range(job.topic.partitions))


def with_settings(found: ReplicaSet, topic: Topic) -> ReplicaSet:
    """Return a partition with its topic's settings, which may change the eligible copies."""
    lrs, elr = without(found.lrs, found.elr, (), topic.min_in_sync)
    return replace(
        found,
        lrs=lrs,
        elr=elr,
        min_in_sync=topic.min_in_sync,
        max_lag_ms=topic.max_lag_ms,
        max_lag_records=topic.max_lag_records,
        compression=topic.compression,
    )
