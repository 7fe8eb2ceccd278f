"""A whole group of members in one thread and in virtual time, from one seed.

One heap of (time, tie, action) is shared by all. Datagrams and frames pass through the real
codec; loss, delay, partitions, pauses and crashes are the network's. After every step the
invariants of the protocol are checked, and every event goes into a trace: equal seeds must
give equal traces.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from gossip import Address, Change, Config, Member, State, wire
from gossip.protocol.effects import (
    Ask,
    Departed,
    Effect,
    Notify,
    Reply,
    ReportConflict,
    Send,
    SetTimer,
)
from gossip.protocol.events import (
    Answered,
    Asked,
    Event,
    LeaveRequested,
    Received,
    Stalled,
    Started,
    Timer,
    TimerFired,
    Unanswered,
)
from gossip.protocol.swim import Swim


@dataclass(slots=True)
class Node:
    """One simulated process."""

    name: str
    address: Address
    swim: Swim
    timers: dict[Timer, float] = field(default_factory=dict)
    changes: list[tuple[float, Change]] = field(default_factory=list)
    conflicts: list[ReportConflict] = field(default_factory=list)
    replies: dict[int, wire.StreamMessage] = field(default_factory=dict)
    is_running: bool = True
    is_departed: bool = False
    paused_since_s: float | None = None
    missed: list[Callable[[], None]] = field(default_factory=list)


class World:
    def __init__(self, seed: int, config: Config) -> None:
        self.config = config
        self.now = 0.0
        self.nodes: dict[str, Node] = {}
        self.everyone: list[Node] = []
        self.loss = 0.0
        self.delay_s = (0.001, 0.003)
        self.group_of: dict[str, int] = {}
        self.unplugged: set[Address] = set()
        self.deaf: set[str] = set()
        self.datagrams = 0
        self._seed = seed
        self._network = random.Random(f"network {seed}")
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._ties = itertools.count()
        self._streams = itertools.count()
        self._trace = hashlib.blake2b(digest_size=16)
        self._highest: dict[tuple[int, str], int] = {}

    # Acts

    def start(
        self,
        name: str,
        *,
        seeds: tuple[str, ...] = (),
        port: int | None = None,
        clock_s: float | None = None,
    ) -> Node:
        """Start a process, under a new uid. `clock_s`: what its wall clock shows."""
        count = len(self.everyone)
        clock_s = 1_000_000.0 + self.now if clock_s is None else clock_s
        address = ("127.0.0.1", 7000 + count if port is None else port)
        me = Member(
            name=name,
            uid=count.to_bytes(wire.UID_BYTES, "big"),
            address=address,
            incarnation=int(1000 * clock_s),
        )
        addresses = [self.nodes[seed].address for seed in seeds]
        rng = random.Random(f"{name} {count} {self._seed}")
        node = Node(name, address, Swim(me, self.config, rng=rng, seeds=addresses))
        self.nodes[name] = node
        self.everyone.append(node)
        self.feed(node, Started())
        return node

    def start_many(self, count: int) -> list[Node]:
        """Start n0, then all others through it."""
        first = self.start("n0")
        return [first, *(self.start(f"n{i}", seeds=("n0",)) for i in range(1, count))]

    def kill(self, name: str) -> None:
        """End the process; its host goes on and refuses connections."""
        self.nodes[name].is_running = False

    def unplug(self, name: str) -> None:
        """End the host: nothing comes back, not even a refusal."""
        self.kill(name)
        self.unplugged.add(self.nodes[name].address)

    def pause(self, name: str) -> None:
        self.nodes[name].paused_since_s = self.now

    def resume(self, name: str) -> None:
        """Let a paused process find its datagrams and its timers, and notice the gap."""
        node = self.nodes[name]
        assert node.paused_since_s is not None
        lag_s = self.now - node.paused_since_s
        node.paused_since_s = None
        missed, node.missed = node.missed, []
        self.feed(node, Stalled(lag_s))
        for action in missed:
            action()

    def leave(self, name: str) -> None:
        self.feed(self.nodes[name], LeaveRequested())

    def partition(self, *groups: list[str]) -> None:
        self.group_of = {name: number for number, names in enumerate(groups) for name in names}

    def heal(self) -> None:
        self.group_of = {}

    # Time

    def run(self, seconds: float) -> None:
        """Let `seconds` pass."""
        end_s = self.now + seconds
        while self._heap and self._heap[0][0] <= end_s:
            self.now, _, action = heapq.heappop(self._heap)
            action()
        self.now = end_s

    def run_until(self, condition: Callable[[], bool], *, within_s: float) -> float:
        """Let time pass until `condition`; return how long it took."""
        begin_s = self.now
        while not condition():
            assert self.now - begin_s <= within_s, self.picture()
            self.run(0.05)
        return self.now - begin_s

    # Sights

    def sees(self, observer: str, subject: str) -> State | None:
        member = self.nodes[observer].swim.membership.table.get(subject)
        return member.state if member is not None else None

    def all_see(self, states: dict[str, State]) -> bool:
        """Whether every running node holds exactly `states`, those it has left out apart."""
        return all(
            self.sees(node.name, subject) is state
            for node in self.nodes.values()
            if node.is_running and not node.is_departed
            for subject, state in states.items()
        )

    def ever(self, state: State) -> set[str]:
        """Who was ever held to be in `state`, by anybody."""
        return {
            change.member.name
            for node in self.everyone
            for _, change in node.changes
            if change.member.state is state
        }

    def picture(self) -> str:
        rows = [
            f"{node.name}: " + " ".join(f"{m.name}={m.state}" for m in node.swim.membership.table)
            for node in self.nodes.values()
        ]
        return f"seed {self._seed} at {self.now:.2f} s\n" + "\n".join(rows)

    @property
    def trace(self) -> str:
        return self._trace.hexdigest()

    # The network

    def feed(self, node: Node, event: Event) -> None:
        if not node.is_running:
            return
        self._trace.update(f"{self.now:.9f} {node.name} {event}\n".encode())
        effects = node.swim.step(event, self.now)
        for effect in effects:
            self._perform(node, effect)
        self._check(node)

    def _perform(self, node: Node, effect: Effect) -> None:
        match effect:
            case Send(to, messages):
                self._send(node, to, messages)
            case Ask():
                self._ask(node, effect)
            case Reply(stream, message):
                node.replies[stream] = message
            case SetTimer(timer, at_s):
                node.timers[timer] = at_s
                self._at(at_s, lambda: self._fire(node, timer, at_s))
            case Notify(change):
                node.changes.append((self.now, change))
            case ReportConflict():
                node.conflicts.append(effect)
            case Departed():
                node.is_departed = True

    def _fire(self, node: Node, timer: Timer, at_s: float) -> None:
        if node.paused_since_s is not None:
            node.missed.append(lambda: self._fire(node, timer, at_s))
        elif node.timers.get(timer) == at_s:
            del node.timers[timer]
            self.feed(node, TimerFired(timer))

    def _send(self, node: Node, to: Address, messages: tuple[wire.DatagramMessage, ...]) -> None:
        assert messages, "an empty datagram"
        data = wire.encode_datagram(messages)
        assert len(data) <= self.config.datagram_bytes_max
        self.datagrams += 1
        if self._network.random() >= self.loss:
            self._later(lambda: self._deliver(node, to, data))

    def _deliver(self, sender: Node, to: Address, data: bytes) -> None:
        target = self._reachable(sender, to)
        if target is None or target.name in self.deaf:
            return
        decoded = wire.decode_datagram(data)
        assert decoded.dropped_count == 0
        if target.paused_since_s is not None:
            target.missed.append(lambda: self._deliver(sender, to, data))
        else:
            self.feed(target, Received(sender.address, decoded.messages))

    def _ask(self, node: Node, ask: Ask) -> None:
        frame = wire.encode_frame(ask.message)
        failed = Unanswered(ask.exchange, is_refused=False)
        refused = Unanswered(ask.exchange, is_refused=True)
        deadline_s = self.now + ask.timeout_s

        def connect() -> None:
            target = self._reachable(node, ask.to)
            if node.name in self.deaf or (target is not None and target.name in self.deaf):
                self._at(deadline_s, lambda: self.feed(node, failed))
            elif target is None and self._is_refusing(node, ask.to):
                self._later(lambda: self.feed(node, refused))
            elif target is None or target.paused_since_s is not None:
                self._at(deadline_s, lambda: self.feed(node, failed))
            else:
                answer(target)

        def answer(target: Node) -> None:
            request = wire.decode_frame(frame[wire.FRAME_HEADER_BYTES :])
            assert request is not None
            stream = next(self._streams)
            self.feed(target, Asked(stream, request))
            reply = target.replies.pop(stream, None)
            if reply is None:
                self._later(lambda: self.feed(node, failed))
                return
            body = wire.encode_frame(reply)[wire.FRAME_HEADER_BYTES :]
            message = wire.decode_frame(body)
            assert message is not None
            self._later(lambda: self.feed(node, Answered(ask.exchange, message)))

        self._later(connect)

    def _reachable(self, sender: Node, to: Address) -> Node | None:
        for node in self.nodes.values():
            if node.address == to and node.is_running and self._is_joined(sender, node):
                return node
        return None

    def _is_refusing(self, sender: Node, to: Address) -> bool:
        """Whether the host at `to` can be reached, although no process of ours is there."""
        if to in self.unplugged:
            return False
        there = [node for node in self.everyone if node.address == to]
        return all(self._is_joined(sender, node) for node in there)

    def _is_joined(self, one: Node, other: Node) -> bool:
        return self.group_of.get(one.name, -1) == self.group_of.get(other.name, -1)

    def _later(self, action: Callable[[], None]) -> None:
        least_s, most_s = self.delay_s
        self._at(self.now + least_s + (most_s - least_s) * self._network.random(), action)

    def _at(self, at_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (max(at_s, self.now), next(self._ties), action))

    # Invariants

    def _check(self, node: Node) -> None:
        membership = node.swim.membership
        assert membership.me.state in (State.ALIVE, State.LEFT), "it holds itself dead"
        live_count = 0
        for member in membership.table:
            key = (id(node), member.name)
            assert member.incarnation >= self._highest.get(key, 0), "an incarnation fell"
            self._highest[key] = member.incarnation
            is_suspect = member.state is State.SUSPECT
            assert is_suspect == (member.name in membership.suspicions)
            live_count += member.is_live
        assert membership.table.live_count == live_count
        assert len(membership.queue) <= len(membership.table)
