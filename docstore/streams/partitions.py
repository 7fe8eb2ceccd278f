"""The machine: this node's part in every partition, and the entry of its own clients.

`step(event, now)` returns the effects, in the order in which they must be performed. It never
waits, reads no clock and draws no number but from the generator it was given. It stands beside the
machine of documents (`protocol/replica.py`), whose documents of level 3 it reads and changes as a
client: a partition's epoch, leader and live replica set are one of them. This file only dispatches;
each rule has its own file, named in `docstore/streams/__init__.py`.
"""

from random import Random
from typing import assert_never

from docstore.beside.asking import Noticed, Told
from docstore.beside.updates import Updates, tag_of
from docstore.beside.view import View
from docstore.model.document import Row
from docstore.storage.partitions import StreamsRecovered
from docstore.streams.catchup import CatchUp
from docstore.streams.commands import Commands
from docstore.streams.confirming import Confirming
from docstore.streams.controller import Controller
from docstore.streams.core import Core
from docstore.streams.deletion import Deletion
from docstore.streams.directory import Directory
from docstore.streams.doubt import Doubts
from docstore.streams.dropping import Dropping
from docstore.streams.effects import StreamEffect
from docstore.streams.events import (
    CommandAsked,
    DrainAsked,
    FetchAsked,
    FiguresAsked,
    Kept,
    LeaderAsked,
    LinkLost,
    LinkMade,
    Looked,
    ProduceAsked,
    Received,
    Room,
    StreamEvent,
    Surveyed,
    Tick,
    TurnEnded,
)
from docstore.streams.fail_back import FailBack
from docstore.streams.fencing import Fencing
from docstore.streams.fetching import Fetching
from docstore.streams.figures import figures_of
from docstore.streams.follower import Follower
from docstore.streams.governed import Governed
from docstore.streams.holding_back import HoldingBack
from docstore.streams.in_sync import InSync
from docstore.streams.leader import Leader
from docstore.streams.log import PartitionLog
from docstore.streams.messages import (
    Acked,
    Adopt,
    Append,
    Attach,
    Doubt,
    Doubted,
    Fence,
    Fenced,
    Notice,
    Produce,
    Produced,
    Promoted,
    Rejected,
    Resign,
    Streaming,
    Yield,
)
from docstore.streams.producing import Producing
from docstore.streams.provisioning import Provisioning
from docstore.streams.reassignment import Reassignment
from docstore.streams.replica_set import is_partition, is_topic
from docstore.streams.retention import Retention
from docstore.streams.roles import Roles, read_replica_set
from docstore.streams.saving import Saving
from docstore.streams.scrub import Scrub
from docstore.streams.strays import Strays
from docstore.streams.timing import StreamsConfig
from docstore.streams.topic_audit import TopicAudit
from docstore.streams.topics import Topics

ROUNDS_MAX = 1000
"""Messages of this node to itself that one step may bring about; more are a mistake of ours."""


class Partitions:
    """One node's part in every partition: replica, leader, controller, and entry of clients."""

    def __init__(
        self,
        node_id: str,
        recovered: StreamsRecovered,
        *,
        view: View,
        rng: Random,
        config: StreamsConfig | None = None,
        now: float = 0.0,
    ) -> None:
        self.core = core = Core(
            node_id, recovered, view=view, rng=rng, config=config or StreamsConfig(), now=now
        )
        self.updates = Updates(core)
        self.directory = Directory(core, self.updates)
        self.fencing = Fencing(core, self._deposed)
        self.follower = Follower(core, self.fencing)
        self.catchup = CatchUp(core, self._damaged)
        self.leader = Leader(core, self.catchup)
        self.in_sync = InSync(core, self.leader, self.updates)
        self.roles = Roles(
            core,
            fencing=self.fencing,
            follower=self.follower,
            leader=self.leader,
            in_sync=self.in_sync,
            updates=self.updates,
        )
        self.doubts = Doubts(core)
        self.topics = Topics(core, self.updates)
        self.controller = Controller(core, self.updates, self.doubts, self.topics)
        self.retention = Retention(core, self.leader, self.topics)
        self.holding_back = HoldingBack(core, self.leader, self.roles)
        self.confirming = Confirming(core, self.leader, self.updates)
        self.fail_back = FailBack(core)
        self.reassignment = Reassignment(core, self.controller)
        self.provisioning = Provisioning(core, self.updates)
        self.deletion = Deletion(core, self.controller, self.updates)
        self.topic_audit = TopicAudit(core, self.controller, self.updates)
        self.commands = Commands(core, self.controller, self.reassignment)
        self.saving = Saving(core)
        self.strays = Strays(core, self.roles)
        self.dropping = Dropping(core)
        self.scrub = Scrub(core, self._damaged)
        self.producing = Producing(core, self.directory)
        self.fetching = Fetching(core, self.leader, self.follower, self._damaged)
        self._introduce()

    def _introduce(self) -> None:
        """Let the parts hear of what others do."""
        self.controller.entered = self._entered
        self.controller.forgotten = self._forgotten
        self.updates.learn = self._learn
        self.updates.missed = self.roles.doubt_all
        self.leader.opened = self.retention.opened
        self.leader.raised = self.fetching.raised
        self.leader.doubted = lambda leading: self.roles.doubt(leading.log)
        self.leader.confirm = self.confirming.ask
        self.leader.watch = self.in_sync.watch
        self.leader.heard = self.holding_back.acked

    def step(self, event: StreamEvent, now: float) -> list[StreamEffect]:  # Seam.
        """Return what `event` at `now` (monotonic seconds) asks of the world, in order."""
        core = self.core
        stood_still = now - core.now > core.config.pause_s
        core.now = now
        if stood_still:
            self.holding_back.ask_all()
        self._dispatch(event)
        for _ in range(ROUNDS_MAX):
            if not core.local:
                break
            self._receive(core.me, core.local.popleft())
        effects, core.out = core.out, []
        return effects

    @property
    def wants_turn(self) -> bool:
        """Say whether something waits for TurnEnded."""
        return self.core.has_more or self.leader.has_more or bool(self.core.local)

    def _dispatch(self, event: StreamEvent) -> None:
        match event:
            case Received(sender, message):
                self._receive(sender, message)
            case ProduceAsked():
                self.producing.ask(event)
            case FetchAsked():
                self.fetching.ask(event)
            case TurnEnded():
                self.leader.end_turn()
                self.core.flush()
            case Kept(token):
                self.core.kept(token)
            case Looked(answers):
                for token, result in answers:
                    self.core.looked(token, result)
            case Told(token, answer):
                self.core.told(token, answer)
            case Tick():
                self._tick()
            case Noticed(row):
                self._learn(row)
            case Surveyed(token, rows):
                self.controller.surveyed(token, [row for row in rows if is_partition(row.link)])
                self.provisioning.surveyed([row.link for row in rows if is_topic(row.link)])
            case LinkMade(peer):
                self._link_made(peer)
            case LinkLost(peer):
                self.producing.link_lost(peer)
                self.in_sync.link_lost(peer)
            case Room(has_room):
                self.core.has_room = has_room
                self.in_sync.watch_all()
            case LeaderAsked():
                self.producing.who_leads(event)
            case FiguresAsked(request, links):
                self.core.give(request, figures_of(self.leader, links))
            case CommandAsked(request):
                self.core.give(request, self.commands.asked(event))
            case DrainAsked():
                self.core.draining = True
            case _:
                assert_never(event)

    def _receive(self, sender: str, message: Streaming) -> None:
        match message:
            case Append():
                self.follower.append(sender, message)
            case Acked():
                self.leader.acked(sender, message)
            case Produce():
                self.leader.produce(sender, message)
            case Produced():
                self.producing.produced(sender, message)
            case Attach():
                self.leader.attach(sender, message)
            case Adopt():
                self.follower.adopt(sender, message)
            case Fence():
                self.fencing.fence(sender, message)
            case Fenced():
                self.controller.elections.fenced(sender, message)
            case Notice(documents):
                for link, epoch, version, state in documents:
                    self._noticed(link, (epoch, version), state)
            case Promoted():
                self.controller.elections.promoted(sender, message)
            case Resign():
                self.controller.elections.resigned(sender, message)
            case Yield():
                self.holding_back.asked_to_yield(sender, message)
            case Rejected():
                self._rejected(sender, message)
            case Doubt():
                self.doubts.asked(sender, message)
            case Doubted():
                self.doubts.answered(sender, message)
            case _:
                assert_never(message)

    # What documents say

    def _learn(self, row: Row) -> None:
        """Take a decided version of a document under /core/streams."""
        if is_topic(row.link):
            self.provisioning.learn(row)
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

    def _entered(self, known: Governed) -> None:
        self.fail_back.entered(known)
        self.reassignment.entered(known)
        self.deletion.entered(known)
        self.topic_audit.entered(known)

    def _forgotten(self, known: Governed) -> None:
        self.fail_back.forgotten(known)
        self.reassignment.forgotten(known)
        self.deletion.forgotten(known)
        self.topic_audit.forgotten(known)

    # What concerns more than one part

    def _deposed(self, log: PartitionLog) -> None:
        """A greater ballot was promised: whatever we lead or follow under a smaller one is over."""
        self.roles.step_down(log)

    def _damaged(self, log: PartitionLog) -> None:
        """A batch failed its check: this replica can vouch for its log no more."""
        core = self.core
        if not log.full:
            return
        core.alarm(f"{log.name}: a checksum does not match")
        log.full = False
        core.save(log)
        leading = self.leader.leading.get(log.name)
        if leading is not None:
            self.holding_back.damaged(leading)
        else:
            self.follower.seek(log)

    def _rejected(self, sender: str, message: Rejected) -> None:
        self.controller.elections.rejected(sender, message)
        for name, epoch, code, promised, _ in message.partitions:
            log = self.core.logs.get(name)
            if log is None:
                continue
            leading = self.leader.leading.get(name)
            if leading is not None and promised[0] > leading.epoch == epoch:
                self.roles.step_down(log)
                self.roles.doubt(log)
            elif leading is None and code == "not-attached":
                self.follower.rejected(sender, log, epoch)
            elif leading is None and code != "no-room":
                self.roles.doubt(log)

    def _link_made(self, peer: str) -> None:
        self.controller.link_made(peer)
        self.follower.link_made(peer)
        self.in_sync.watch_node(peer)

    def _tick(self) -> None:
        self.holding_back.tick()
        self.saving.tick()
        self.strays.tick()
        self.scrub.tick()
        self.dropping.tick()
        self.fail_back.tick()
        self.reassignment.tick()
        self.provisioning.tick()
        self.deletion.tick()
        self.topic_audit.tick()
        self.retention.tick()
        self.follower.tick()
        self.catchup.tick()
        self.in_sync.tick()
        self.roles.tick()
        self.controller.tick()
        self.updates.tick()
        self.leader.expire()
        self.producing.tick()
        self.fetching.tick()
