"""The partition machine of a node: replica, leader and controller, and entry of its clients.

`step(event, now)` returns the effects, in the order in which they must be performed. It never
waits, reads no clock, and draws random numbers only from the generator that it was given.

A partition's epoch, leader and live replica set are a document of level 3. This machine reads and
changes such documents as a client of the document machine (`documents/replica.py`). This file only
dispatches; each rule has its own file, named in `docstore/streams/__init__.py`.
"""

from random import Random
from typing import Protocol, assert_never

from docstore.machines.core import ClientMachine
from docstore.machines.events import (
    DrainAsked,
    LinkLost,
    LinkMade,
    Noticed,
    OperationAnswered,
    Persisted,
    QueriesAnswered,
    Received,
    Room,
    Surveyed,
    Tick,
    TurnEnded,
)
from docstore.machines.updates import Updates, tag_of
from docstore.machines.view import MachineView
from docstore.model.document import Row
from docstore.storage.partitions import StreamsRecovered
from docstore.streams.acknowledgements import Acknowledgements
from docstore.streams.back_pressure import Deferring
from docstore.streams.catchup import OUTDATED, FollowerCatchUp
from docstore.streams.checkpoint import Saving
from docstore.streams.commands import Commands
from docstore.streams.compaction_task import CompactionTask
from docstore.streams.controlled_partition import ControlledPartition
from docstore.streams.controller import Controller
from docstore.streams.controller_tasks import Duties
from docstore.streams.core import Core
from docstore.streams.directory import Directory
from docstore.streams.disk import Disk
from docstore.streams.effects import StreamEffect
from docstore.streams.events import (
    CommandAsked,
    DeletionAsked,
    FetchAsked,
    FiguresAsked,
    LeaderAsked,
    NewsAsked,
    NewsForgotten,
    ProduceAsked,
    StreamEvent,
)
from docstore.streams.fencing import Fencing
from docstore.streams.fetching import Fetching
from docstore.streams.figures import figures_of
from docstore.streams.follower import FollowedPartitions
from docstore.streams.leader import Leader
from docstore.streams.leading import Leads
from docstore.streams.log import PartitionLog, PartitionLogs
from docstore.streams.orphaned_replicas import OrphanedReplicas
from docstore.streams.producing import ClientProduces
from docstore.streams.replica_set import is_partition, is_topic, read_replica_set
from docstore.streams.replicas import Replicas
from docstore.streams.role_transitions import Roles
from docstore.streams.scrub import Scrub
from docstore.streams.tails import Tails
from docstore.streams.timing import StreamsConfig
from docstore.streams.topics import Topics
from docstore.streams.witnesses import Witnesses
from docstore.wire import streams_messages as messages


class Ticking(Protocol):
    """A part with work that depends on time."""

    def tick(self) -> None:
        """Do the work that is due."""


class Partitions(ClientMachine[StreamEvent, StreamEffect, messages.Streaming, Core]):
    """One node's part in every partition: replica, leader, controller, and entry of clients."""

    rounds_max = 1_000

    def __init__(
        self,
        node_id: str,
        recovered: StreamsRecovered,
        *,
        view: MachineView,
        rng: Random,
        config: StreamsConfig | None = None,
        now: float = 0.0,
    ) -> None:
        config = config or StreamsConfig()
        self.core = core = Core(node_id, view=view, rng=rng, config=config, now=now)
        self.logs = logs = PartitionLogs()
        tails = Tails(config.memory)
        self.disk = disk = Disk(core, logs, tails, self._durable)
        self.replicas = replicas = Replicas(core, logs, tails, disk)
        replicas.recover(recovered)
        self.updates = updates = Updates(core, self._learn, self._missed)
        self.directory = Directory(core, updates)
        self.producing = ClientProduces(core, self.directory)
        self.fencing = Fencing(core, logs, disk, replicas, self._deposed)
        self.follower = FollowedPartitions(
            core, logs, disk, replicas=replicas, fencing=self.fencing
        )
        leads: Leads = {}
        self.fetching = Fetching(core, logs, disk, leads, self.follower, self._damaged)
        topics = Topics(core, updates)
        self.leader = Leader(
            core, logs, disk, leads, replicas=replicas,
            catchup=FollowerCatchUp(core, disk, self._damaged), fetching=self.fetching,
            topics=topics, updates=updates,
        )  # fmt: skip
        self.roles = Roles(
            core,
            logs,
            disk,
            replicas=replicas,
            follower=self.follower,
            leader=self.leader,
            updates=updates,
        )
        self.deferring = Deferring(core, disk, self.leader, self.roles)
        self.acknowledgements = Acknowledgements(
            core, logs, disk, leader=self.leader, roles=self.roles, deferring=self.deferring
        )
        self.compaction = CompactionTask(
            core, logs, disk, leads, topics=topics, damaged=self._damaged
        )
        self._govern(topics)
        self._ticking = self._in_order()

    def _govern(self, topics: Topics) -> None:
        """Create the parts of the controller."""
        core, updates = self.core, self.updates
        self.witnesses = Witnesses(core)
        self.controller = Controller(
            core,
            updates=updates,
            witnesses=self.witnesses,
            topics=topics,
            entered=self._entered,
            forgotten=self._forgotten,
        )
        self.duties = Duties(core, self.controller, updates)
        self.commands = Commands(core, self.controller, self.duties.reassignment)

    def _in_order(self) -> tuple[Ticking, ...]:
        """Return the parts with work that depends on time, in their order."""
        core, logs, disk = self.core, self.logs, self.disk
        return (
            self.deferring,
            Saving(core, logs, disk),
            OrphanedReplicas(core, logs, self.roles),
            Scrub(core, logs, disk, self._damaged),
            self.replicas,
            self.duties,
            self.leader.retention,
            self.leader.deletion,
            self.compaction,
            self.follower,
            self.leader.catchup,
            self.leader.in_sync,
            self.roles,
            self.controller,
            self.updates,
            self.leader.purgatory,
            self.producing,
            self.fetching,
        )

    def _stalled(self, passed_s: float) -> None:
        """Ask the followers whether our epochs are the newest, as this process was stalled."""
        self.deferring.ask_all()

    @property
    def wants_turn(self) -> bool:
        """Say whether a part waits for TurnEnded."""
        return bool(
            self.disk.has_more
            or self.core.has_posted
            or self.leader.appending.has_more
            or self.core.local
        )

    def _dispatch(self, event: StreamEvent) -> None:
        match event:
            case Received(sender, message):
                self._receive(sender, message)
            case ProduceAsked():
                self.producing.ask(event)
            case FetchAsked():
                self.fetching.ask(event)
            case NewsAsked() | NewsForgotten():
                self.fetching.news.take(event)
            case TurnEnded():
                self.leader.appending.end_turn()
                self.disk.flush()
                self.core.send_posted()
            case Persisted(token):
                self.disk.persisted(token)
            case QueriesAnswered(answers):
                for token, result in answers:
                    self.disk.answer_read(token, result)
            case OperationAnswered(token, answer):
                self.core.told(token, answer)
            case Tick():
                for part in self._ticking:
                    part.tick()
            case Noticed(row):
                self._learn(row)
            case Surveyed(token, rows):
                self.controller.surveyed(token, [row for row in rows if is_partition(row.link)])
                self.duties.provisioning.surveyed([row.link for row in rows if is_topic(row.link)])
            case LinkMade(peer):
                self._link_made(peer)
            case LinkLost(peer):
                self.producing.link_lost(peer)
                self.leader.in_sync.link_lost(peer)
            case Room(has_room):
                self.core.has_room = has_room
                self.leader.in_sync.watch_all()
            case LeaderAsked():
                self.producing.who_leads(event)
            case FiguresAsked(request, links):
                self.core.give(request, figures_of(self.leader, links))
            case CommandAsked(request):
                self.core.give(request, self.commands.asked(event))
            case DeletionAsked():
                self.leader.deletion.ask(event)
            case DrainAsked():
                self.core.draining = True
            case _:
                assert_never(event)

    def _receive(self, sender: str, message: messages.Streaming) -> None:
        match message:
            case messages.Append():
                self.follower.append(sender, message)
            case messages.Acked():
                self.acknowledgements.acked(sender, message)
            case messages.Produce():
                self.leader.produce(sender, message)
            case messages.Produced():
                self.producing.produced(sender, message)
            case messages.Attach():
                self.acknowledgements.attach(sender, message)
            case messages.Adopt():
                self.follower.adopt(sender, message)
            case messages.Fence():
                self.fencing.fence(sender, message)
            case messages.Fenced():
                self.controller.elections.fenced(sender, message)
            case messages.Notice(documents):
                for link, epoch, version, state in documents:
                    self._noticed(link, (epoch, version), state)
            case messages.Promoted():
                self.controller.elections.promoted(sender, message)
            case messages.Resign():
                self.controller.elections.resigned(sender, message)
            case messages.Yield():
                self.deferring.asked_to_yield(sender, message)
            case messages.Rejected():
                self._rejected(sender, message)
            case messages.Witness():
                self.witnesses.asked(sender, message)
            case messages.Witnessed():
                self.witnesses.answered(sender, message)
            case _:
                assert_never(message)

    # Documents

    def _learn(self, row: Row) -> None:
        """Take a decided version of a document under /core/streams."""
        if is_topic(row.link):
            self.duties.provisioning.learn(row)
        if not is_partition(row.link):
            return
        self.directory.learn(row)
        self.controller.learn(row)
        if not row.deleted:
            self._noticed(row.link, tag_of(row), row.state)

    def _noticed(self, link: str, tag: tuple[int, int], state: bytes) -> None:
        found = read_replica_set(state)
        if found is not None:
            self.directory.take(link, tag, found)
            self.roles.take(link, tag, found)

    def _entered(self, known: ControlledPartition) -> None:
        self.duties.entered(known)

    def _forgotten(self, known: ControlledPartition) -> None:
        self.duties.forgotten(known)

    def _missed(self, link: str) -> None:
        """Have our replicas read a document whose update failed: it may no longer exist."""
        self.roles.reread_all(link)

    # Effects on several parts

    def _deposed(self, log: PartitionLog) -> None:
        """End our lead of a partition, or forget its leader, after promising a greater ballot."""
        self.roles.step_down(log)

    def _durable(self, log: PartitionLog) -> None:
        """Advance the high watermark, as more of a log is durable."""
        self.leader.durable(log)

    def _damaged(self, log: PartitionLog) -> None:
        """Stop vouching for a log, since a batch of it failed its check."""
        core = self.core
        if not log.full:
            return
        core.alarm(f"{log.name}: a checksum does not match")
        log.full = False
        self.disk.save(log)
        leading = self.leader.leading.get(log.name)
        if leading is not None:
            self.deferring.damaged(leading)
        else:
            self.follower.seek(log)

    def _rejected(self, sender: str, message: messages.Rejected) -> None:
        self.controller.elections.rejected(sender, message)
        for name, epoch, code, promised, _ in message.partitions:
            log = self.logs.get(name)
            if log is None:
                continue
            leading = self.leader.leading.get(name)
            if leading is not None and promised[0] > leading.epoch == epoch:
                self.roles.step_down(log)
                self.roles.reread(log)
            elif leading is None and code in ("not-attached", OUTDATED):
                self.follower.rejected(sender, log, epoch, code)
            elif leading is None and code != "no-room":
                self.roles.reread(log)

    def _link_made(self, peer: str) -> None:
        self.controller.link_made(peer)
        self.follower.link_made(peer)
        self.leader.in_sync.watch_node(peer)
