"""A whole group of members in one thread and in virtual time, from one seed.

One heap of (time, tie, action) is shared by all. With `codec` every datagram and frame passes
through the real codec; without it messages are handed over as they are, which is some times as
fast and must give the same trace. Every step goes into the trace, and is looked at by the
oracles. One generator for each purpose, so that a draw more in one place moves nothing elsewhere.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import random
import struct
from collections.abc import Callable

from gossip import Address, Config, Member, State, wire
from gossip.messages import FRAME_HEADER_BYTES, DatagramMessage, Ping, StreamMessage
from gossip.protocol.effects import (
    Ask,
    Departed,
    Effect,
    Notify,
    Reply,
    ReportConflict,
    ReportSeed,
    ReportUnreachable,
    Send,
    SetTimer,
)
from gossip.protocol.events import (
    Answered,
    Asked,
    Event,
    LeaveRequested,
    ProbeAsked,
    ProbeDue,
    Received,
    Stalled,
    Started,
    SuspicionDue,
    Timer,
    TimerFired,
    Unanswered,
)
from gossip.protocol.swim import Swim
from tests.gossip.frames import decode_frame, encode_frame
from tests.gossip.network import Network
from tests.gossip.node import Node
from tests.gossip.oracles import Oracles, changes_in_order, encoded

_DEAD = State.DEAD


class World:
    def __init__(self, seed: int, config: Config, *, codec: bool = True) -> None:
        self.config = config
        self.now = 0.0
        self.codec = codec
        self.nodes: dict[str, Node] = {}
        self.everyone: list[Node] = []
        self.oracles = Oracles()
        self.datagrams = 0
        self.steps = 0
        self.network = Network(self.rng_for("network", seed))
        self._seed = seed
        self._at_address: dict[Address, Node] = {}
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._ties = itertools.count()
        self._streams = itertools.count()
        self._trace = hashlib.blake2b(digest_size=16)

    @staticmethod
    def rng_for(purpose: str, seed: int) -> random.Random:
        """Return a generator that depends on nothing but the purpose and the seed."""
        key = hashlib.blake2b(f"{purpose} {seed}".encode(), digest_size=8).digest()
        return random.Random(int.from_bytes(key, "big"))

    # Acts

    def start(
        self,
        name: str,
        *,
        seeds: tuple[str, ...] = (),
        host: int | None = None,
        clock_s: float | None = None,
    ) -> Node:
        """Start a process, under a new uid.

        host: number of the process whose address it takes over; clock_s: what its clock shows.
        """
        node = self._prepare(name, seeds=seeds, host=host, clock_s=clock_s)
        self.feed(node, Started())
        return node

    def start_many(self, count: int) -> list[Node]:
        """Start n0, then all others through it."""
        first = self.start("n0")
        return [first, *(self.start(f"n{i}", seeds=("n0",)) for i in range(1, count))]

    def start_acquainted(self, count: int, *, seeds: tuple[str, ...] = ()) -> list[Node]:
        """Start `count` processes that know each other already."""
        nodes = [self._prepare(f"n{i}") for i in range(count)]
        members = [node.swim.membership.me for node in nodes]
        for node in nodes:
            membership = node.swim.membership
            for member in members:
                if member.name != node.name:
                    membership.table.put(member)
                    node.acquainted[member.name] = State.ALIVE
            for name in seeds:
                node.swim._joiner.add(self.nodes[name].address, 0.0)
            self.feed(node, Started())
            membership.queue.clear()
            node.stable_since = 0
        return nodes

    def begin(self, node: Node) -> None:
        """Let a prepared process begin."""
        self.feed(node, Started())

    def kill(self, name: str) -> None:
        """End the process; its host goes on and refuses connections."""
        self.nodes[name].is_running = False

    def unplug(self, name: str) -> None:
        """End the host: nothing comes back, not even a refusal."""
        self.kill(name)
        self.network.unplugged.add(self.nodes[name].address)

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

    def block(self, name: str) -> None:
        """Hold up all messages of a process, in and out; its timers go on."""
        self.nodes[name].is_blocked = True

    def unblock(self, name: str) -> None:
        """Let the messages that have waited go, all at once."""
        node = self.nodes[name]
        node.is_blocked = False
        missed, node.missed = node.missed, []
        for action in missed:
            action()

    def leave(self, name: str) -> None:
        self.feed(self.nodes[name], LeaveRequested())

    # Time

    def run(self, seconds: float) -> None:
        """Let `seconds` pass."""
        end_s = self.now + seconds
        while self._heap and self._heap[0][0] <= end_s:
            self.now, _, action = heapq.heappop(self._heap)
            action()
        self.now = end_s

    def run_until(
        self, condition: Callable[[], bool], *, within_s: float, every_s: float = 0.05
    ) -> float:
        """Let time pass until `condition`; return how long it took."""
        begin_s = self.now
        while not condition():
            assert self.now - begin_s <= within_s, self.picture()
            self.run(every_s)
        return self.now - begin_s

    def at(self, at_s: float, action: Callable[[], None]) -> None:
        """Do something at a time to come."""
        heapq.heappush(self._heap, (max(at_s, self.now), next(self._ties), action))

    # Views of members

    @property
    def running(self) -> list[Node]:
        """Return the nodes that run and have not left."""
        return [node for node in self.nodes.values() if node.is_running and not node.is_departed]

    def sees(self, observer: str, subject: str) -> State | None:
        member = self.nodes[observer].swim.membership.table.get(subject)
        return member.state if member is not None else None

    def all_see(self, states: dict[str, State]) -> bool:
        """Say whether every running node holds the members of `states` in these states."""
        return all(
            self.sees(node.name, subject) is state
            for node in self.running
            for subject, state in states.items()
        )

    def all_agree(self) -> bool:
        """Say whether every running node holds every running node alive, and no other."""
        names = [node.name for node in self.running]
        return all(
            node.swim.membership.table.live_count == len(names)
            and all(self.sees(node.name, name) is State.ALIVE for name in names)
            for node in self.running
        )

    def ever(self, state: State) -> set[str]:
        """Return the members that any member ever held to be in `state`."""
        return {name for _, _, name in self.changes_to(state)}

    def changes_to(self, state: State) -> list[tuple[float, str, str]]:
        """Return (when, observer, subject) of every change to `state` that an application got."""
        return sorted(
            (at_s, node.name, change.member.name)
            for node in self.everyone
            for at_s, change in node.changes
            if change.member.state is state
        )

    def picture(self) -> str:
        rows = [
            f"{node.name}: " + " ".join(f"{m.name}={m.state}" for m in node.swim.membership.table)
            for node in self.nodes.values()
        ]
        return f"seed {self._seed} at {self.now:.2f} s\n" + "\n".join(rows)[:4000]

    def check_news(self) -> None:
        """Check the order of all changes that applications got."""
        self.oracles.fired["14 news"] += sum(map(changes_in_order, self.everyone))

    @property
    def trace(self) -> str:
        return self._trace.hexdigest()

    # Steps

    def feed(self, node: Node, event: Event) -> None:
        if not node.is_running:
            return
        if node.paused_since_s is not None:
            node.missed.append(lambda: self.feed(node, event))
            return
        self.steps += 1
        if isinstance(event, ProbeAsked):
            node.is_in_order = False
        self._trace.update(struct.pack("<dIB", self.now, node.number, len(type(event).__name__)))
        accused = self.oracles.accused(node, event)
        effects = node.swim.step(event, self.now)
        self.oracles.refuted(node, accused)
        for effect in effects:
            self._perform(node, effect)
        self.oracles.after_step(node, self.now)

    def _prepare(
        self,
        name: str,
        *,
        seeds: tuple[str, ...] = (),
        host: int | None = None,
        clock_s: float | None = None,
    ) -> Node:
        count = len(self.everyone)
        clock_s = 1_000_000.0 + self.now if clock_s is None else clock_s
        number = count if host is None else host
        address = (f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}", 7946)
        me = Member(
            name=name,
            uid=count.to_bytes(wire.UID_BYTES, "big"),
            address=address,
            incarnation=int(1000 * clock_s),
        )
        addresses = [self.nodes[seed].address for seed in seeds]
        rng = self.rng_for(f"{name} {count}", self._seed)
        swim = Swim(me, self.config, rng=rng, seeds=addresses)
        node = Node(name, address, swim, count)
        self.nodes[name] = node
        self.everyone.append(node)
        self._at_address[address] = node
        self.oracles.watch(node)
        return node

    def _perform(self, node: Node, effect: Effect) -> None:
        match effect:
            case Send(to, messages):
                self._send(node, to, messages)
            case SetTimer(timer, at_s):
                node.timers[timer] = at_s
                self.at(at_s, lambda: self._fire(node, timer, at_s))
            case Ask():
                self._ask(node, effect)
            case Reply(stream, message):
                node.replies[stream] = message
            case Notify(change):
                node.changes.append((self.now, change))
                node.stable_since = node.probes
            case ReportConflict() | ReportUnreachable() | ReportSeed():
                node.reports.append((self.now, effect))
            case Departed():
                node.is_departed = True

    def _fire(self, node: Node, timer: Timer, at_s: float) -> None:
        if node.paused_since_s is not None:
            node.missed.append(lambda: self._fire(node, timer, at_s))
        elif node.timers.get(timer) == at_s:
            del node.timers[timer]
            suspicions = node.swim.membership.suspicions
            begun = suspicions.get(timer.name) if isinstance(timer, SuspicionDue) else None
            node.probes += isinstance(timer, ProbeDue)
            self.feed(node, TimerFired(timer))
            if begun is not None and self.sees(node.name, begun.name) is _DEAD:
                self.oracles.died(node, begun.name, self.now, begun)

    # The roads

    def _send(self, node: Node, to: Address, messages: tuple[DatagramMessage, ...]) -> None:
        if node.is_blocked:
            node.missed.append(lambda: self._send(node, to, messages))
            return
        self.datagrams += 1
        node.datagrams_sent += 1
        size = None
        if self.codec:
            size = len(encoded(messages))
            node.bytes_sent += size
        self.oracles.sent(messages, size, self.config.datagram_bytes_max)
        last = messages[-1] if isinstance(messages[-1], Ping) else messages[0]
        is_in_order = node.is_in_order and not node.swim.membership.counters["name_conflicts"]
        if isinstance(last, Ping) and last.source == node.name and is_in_order:
            self.oracles.probed(node, last.target, node.swim.membership.table.live_count)
        target = self._at_address.get(to)
        if target is None:
            return
        for delay_s in self.network.arrivals_s(node.name, target.name):
            self.at(self.now + delay_s, lambda: self._deliver(node, to, messages))

    def _deliver(self, sender: Node, to: Address, messages: tuple[DatagramMessage, ...]) -> None:
        target = self._at_address.get(to)
        if target is None or not target.is_running:
            return
        if target.is_blocked:
            target.missed.append(lambda: self._deliver(sender, to, messages))
            return
        self.feed(target, Received(sender.address, messages))

    def _ask(self, node: Node, ask: Ask) -> None:
        message, network = ask.message, self.network
        if self.codec:
            frame = encode_frame(message)
            node.stream_bytes_sent += len(frame)
            read = decode_frame(frame[FRAME_HEADER_BYTES:])
            assert read is not None
            message = read
        deadline_s = self.now + ask.timeout_s
        failed = Unanswered(ask.exchange, is_refused=False)

        def connect() -> None:
            target = self._at_address.get(ask.to)
            name = target.name if target is not None else ""
            is_open = network.is_open(node.name, name) and network.is_open(name, node.name)
            if target is None or not is_open or ask.to in network.unplugged:
                self.at(deadline_s, lambda: self.feed(node, failed))
            elif not target.is_running:
                refused = Unanswered(ask.exchange, is_refused=True)
                self.at(self.now + network.one_way_s(), lambda: self.feed(node, refused))
            elif target.paused_since_s is not None or target.is_blocked or node.is_blocked:
                self.at(deadline_s, lambda: self.feed(node, failed))
            else:
                late_s = network.lateness_s(name)
                self.at(self.now + late_s, lambda: self._answer(node, ask, target, message))

        self.at(self.now + 2 * network.one_way_s(), connect)

    def _answer(self, node: Node, ask: Ask, target: Node, message: StreamMessage) -> None:
        stream = next(self._streams)
        self.feed(target, Asked(stream, message))
        reply = target.replies.pop(stream, None)
        back_s = self.now + self.network.one_way_s() + self.network.lateness_s(node.name)
        if reply is None:
            failed = Unanswered(ask.exchange, is_refused=False)
            self.at(back_s, lambda: self.feed(node, failed))
        else:
            if self.codec:
                target.stream_bytes_sent += len(encode_frame(reply))
            self.at(back_s, lambda: self.feed(node, Answered(ask.exchange, reply)))
