"""Members of a group, each on a clock with its own rate, against the machines of `group.py`.

The beliefs of members are checked after each of their steps and at every tick, on the one true
clock that only the test has: two exclusive believers at one instant are a failure.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from docstore.model import json
from docstore.ownership.by_induction import Mode, Revoked
from docstore.services.group_document import ROLES, GroupState, MemberDetails, Settings, group_of
from docstore.sessions.group_messages import Leave, Pulse, Reply, Request, Wait, reply_of
from docstore.sessions.member import GroupMember
from docstore.sessions.member_events import (
    Answered,
    Ended,
    Finished,
    LeaveAsked,
    MemberEvent,
    Report,
    SendRequest,
    Tick,
)
from docstore.wire.sessions_messages import Reply as NodeReply
from tests.docstore.sessions.group import TICK_S
from tests.docstore.sessions.group import Group as Nodes

CALL_S = 2.0


@dataclass
class Process:
    """One member process."""

    member: GroupMember
    rate: float
    offset: float
    reports: list[Any] = field(default_factory=list)
    said: list[Request] = field(default_factory=list)
    finishes_at: dict[str, float] = field(default_factory=dict)
    revoke_s: float = 0.0
    """Seconds from a revocation until the process has finished."""
    is_deaf: bool = False
    """Messages are lost in both directions."""
    is_paused: bool = False
    inbox: list[tuple[int, Reply | None, float]] = field(default_factory=list)
    waiting: dict[int, tuple[SendRequest, float, float]] = field(default_factory=dict)
    """call at the node -> (request, stamp, deadline), while it has no reply."""


class World:
    """Nodes, processes, and the true clock."""

    def __init__(
        self,
        partitions: int = 4,
        *,
        name: str = "pricing",
        mode: str = "exclusive",
        rates: str = "000",
        **times: int,
    ) -> None:
        """rates: of the clocks of three nodes, the first of which is the coordinator."""
        self.nodes = Nodes("abc", rates=rates)
        self.link = f"{ROLES}/{name}"
        usual = {"mode": Mode(mode), "session_ms": 3_000, "heartbeat_ms": 500, "revoke_ms": 3_000}
        window = {"window_ms": 1_500 if mode == "exclusive" else 9_000}
        self.settings = Settings(**usual | window | times)  # type: ignore[arg-type]
        self.nodes.put(
            self.link, GroupState(parts={"": partitions}, settings=self.settings).state()
        )
        self.partitions = partitions
        self.processes: dict[str, Process] = {}
        self.delays: Callable[[str, Request, Reply | None], float] = lambda name, asked, reply: 0.0
        """Seconds that a reply takes."""
        self.sends: Callable[[str, Request], float] = lambda name, asked: 0.0
        """Seconds that a request takes."""
        self.entry: Callable[[], str] = lambda: next(iter(self.nodes.machines))
        """The node that the next request goes to."""
        self._late: list[tuple[float, str, int, Reply | None, float]] = []
        self._sent: list[tuple[float, str, SendRequest, float]] = []
        self.gaps: dict[str, list[float]] = {str(each): [] for each in range(partitions)}
        """partition -> true moments at which no process believed that it leads it."""
        self.checks = True

    # Processes

    def start(self, name: str, *, rate: str = "0", **about: Any) -> Process:
        """Start a member process. rate: as of `group.Group`."""
        ids = iter(range(1_000))
        process = Process(
            GroupMember(lambda: f"{name}{next(ids)}", MemberDetails(**about)),
            {"+": 1.02, "-": 0.98}.get(rate, 1.0),
            1_000.0 * (len(self.processes) + 1),
        )
        self.processes[name] = process
        self.feed(name, Tick())
        return process

    def clock(self, name: str) -> float:
        """Return the time by the clock of a process."""
        process = self.processes[name]
        return self.nodes.now * process.rate + process.offset

    def feed(self, name: str, event: MemberEvent) -> None:
        """Give a member an event, and perform the effects."""
        process = self.processes[name]
        for effect in process.member.step(event, self.clock(name)):
            match effect:
                case SendRequest():
                    process.said.append(effect.request)
                    self._say(name, effect)
                case Report(happening):
                    process.reports.append(happening)
                    if isinstance(happening, Revoked):
                        partition = process.member.name_of(happening.partition)
                        process.finishes_at[partition] = self.nodes.now + process.revoke_s
                case Ended():
                    process.reports.append(effect)
        self.check()

    def _say(self, name: str, said: SendRequest) -> None:
        delay_s = self.sends(name, said.request)
        if delay_s:
            self._sent.append((self.nodes.now + delay_s, name, said, self.clock(name)))
        else:
            self._arrive(name, said, self.clock(name))

    def _arrive(self, name: str, said: SendRequest, stamp: float) -> None:
        """Let a request arrive at a node, even if its sender has ended."""
        request, process = said.request, self.processes.get(name)
        if process is not None and process.is_deaf:
            self._late.append((self.nodes.now + CALL_S, name, said.number, None, stamp))
            return
        kind, argument = f"roles-{type(request).__name__.lower()}", list(request)
        if isinstance(request, Wait):
            argument.append(30_000)
        timeout_s = 30.0 if isinstance(request, Wait | Leave) else CALL_S
        call = self.nodes.call(self.link, kind, argument, at=self.entry(), timeout_s=timeout_s)
        if process is not None:
            process.waiting[call] = (said, stamp, self.nodes.now + timeout_s)

    def leave(self, name: str, *, drain: bool = False) -> None:
        """Let a process leave."""
        self.feed(name, LeaveAsked(drain))

    def crash(self, name: str) -> None:
        """End a process."""
        del self.processes[name]

    # Time

    def run(self, seconds: float) -> None:
        """Let true time pass, tick by tick."""
        for _ in range(round(seconds / TICK_S)):
            self.nodes.run(TICK_S)
            due = [each for each in self._sent if each[0] <= self.nodes.now]
            self._sent = [each for each in self._sent if each[0] > self.nodes.now]
            for _, name, said, stamp in due:
                self._arrive(name, said, stamp)
            self._deliver()
            for name in list(self.processes):
                process = self.processes[name]
                if process.is_paused:
                    continue
                for partition, at in list(process.finishes_at.items()):
                    if at <= self.nodes.now:
                        del process.finishes_at[partition]
                        self.feed(name, Finished(partition))
                if process.member.next_at(self.clock(name)) <= self.clock(name):
                    self.feed(name, Tick())
                self._deliver()
            self.check()
            for partition, moments in self.gaps.items():
                if not self.believers(partition):
                    moments.append(self.nodes.now)

    def _deliver(self) -> None:
        for name, process in list(self.processes.items()):
            for call, (said, stamp, until) in list(process.waiting.items()):
                found = self.nodes.replies.pop(call, None)
                if found is None and self.nodes.now < until + 1.0:
                    continue
                del process.waiting[call]
                reply = None if found is None else read(found)
                delay_s = self.delays(name, said.request, reply)
                if process.is_deaf:
                    reply = None
                due_at = self.nodes.now + delay_s
                self._late.append((due_at, name, said.number, reply, stamp))
        due = [each for each in self._late if each[0] <= self.nodes.now]
        self._late = [each for each in self._late if each[0] > self.nodes.now]
        for _, name, number, reply, stamp in due:
            if name not in self.processes:
                continue
            if self.processes[name].is_paused:
                self.processes[name].inbox.append((number, reply, stamp))
            else:
                self.feed(name, Answered(number, reply, stamp))

    def pause(self, name: str) -> None:
        """Stop a process: its clock goes on, and replies wait in its buffers."""
        self.processes[name].is_paused = True

    def resume(self, name: str) -> None:
        """Resume a process, which reads waiting replies first."""
        process = self.processes[name]
        process.is_paused = False
        inbox, process.inbox = process.inbox, []
        for number, reply, stamp in inbox:
            self.feed(name, Answered(number, reply, stamp))

    # Beliefs

    def leads(self, name: str, partition: int) -> bool:
        """Say whether a process believes now that it leads a partition."""
        process = self.processes[name]
        induced = process.member.induced
        return induced is not None and induced.leads(partition, self.clock(name))

    def believers(self, partition: str) -> list[str]:
        """Return the processes, paused ones too, that believe to lead a partition."""
        return [name for name in self.processes if self.leads(name, int(partition))]

    def led(self, name: str) -> set[int]:
        """Return the partitions that a process leads."""
        return {each for each in range(self.partitions) if self.leads(name, each)}

    def check(self) -> None:
        """Fail if two exclusive believers are there (SI1)."""
        if self.settings.mode is Mode.EXCLUSIVE and self.checks:
            for partition in range(self.partitions):
                found = self.believers(str(partition))
                assert len(found) < 2, f"{found} lead {partition} at {self.nodes.now:.2f}"

    @property
    def group(self) -> GroupState:
        """Return the group as its document has it."""
        return group_of(json.load(self.nodes.documents[self.link].state))

    def pulses(self, name: str) -> list[Pulse]:
        """Return the pulses that a process has sent."""
        return [each for each in self.processes[name].said if isinstance(each, Pulse)]


def read(found: NodeReply) -> Reply | None:
    """Return a node's reply as a client reads it: a 5xx is none."""
    if found.code and found.status >= 500:
        return None
    if found.code:
        return reply_of(["Refused", found.status, found.code, found.detail])
    return reply_of(found.result)
