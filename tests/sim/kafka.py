"""Model of Kafka's classic coordinator, and members that follow on_kafka.py.

The model has all of Kafka that decides which member may lead: generations; joins that wait for all
members, or for a time; sessions, and kicks before their end; commits that are checked by generation
alone, and accepted without one by an empty group; records whose offsets grow; and receipt, which
proves no membership. Members have clocks whose rates are wrong by 2 %, are paused or cut off, and
retry a commit under the generation that they have by then, as clients do.

One arena is one seed. It reports two members that believe in the same partition at one instant,
and a token that falls. kafka_ablations.py removes the rules.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from docstore.ownership.by_induction import Acquired, Event, Windows
from docstore.ownership.on_kafka import Attempt, Membership
from docstore.testing.simulation.world import World

PARTITIONS = 3
MEMBERS = "a b c".split()
RATE_ERROR = 0.02
SESSION_S = 1.5
REBALANCE_S = 0.5
TICK_S = 0.02
TROUBLE_S = 10.0

# Answers to requests
OK, REBALANCING, NO_MEMBER = "ok", "rebalancing", "no member"


class Coordinator:
    """State of the group at its broker."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.generation = 0
        self.parts: dict[str, frozenset[int]] = {}
        """Member of this generation -> its partitions."""
        self.heard: dict[str, float] = {}
        """Member, or process that joins -> when it was last heard."""
        self.joining: dict[str, Callable[[int], None]] = {}
        self.is_preparing = False
        self.offsets = Counter[int]()

    def join(self, member: str, then: Callable[[int], None]) -> None:
        """Answer with the new generation, once all members have joined or their time is over."""
        self.heard[member] = self.world.now
        self.joining[member] = then
        self._prepare()
        if self.heard.keys() <= self.joining.keys():
            self._complete(self.generation)

    def part_of(self, member: str, generation: int) -> frozenset[int] | None:
        """Return what is assigned to a member of this generation; None if it is over."""
        return self.parts.get(member) if generation == self.generation else None

    def heartbeat(self, member: str, generation: int) -> str:
        """Renew a session, and say whether the member has to join again."""
        if self.part_of(member, generation) is None or member not in self.heard:
            return NO_MEMBER
        self.heard[member] = self.world.now
        return REBALANCING if self.is_preparing else OK

    def commit(self, member: str, generation: int) -> str:
        """Accept a commit of this generation, or one without a generation in an empty group."""
        if generation < 0:
            return NO_MEMBER if self.heard else OK
        is_member = member in self.heard and self.part_of(member, generation) is not None
        return OK if is_member else NO_MEMBER

    def publish(self, partition: int) -> int:
        """Append a record of any sender, and return its offset."""
        self.offsets[partition] += 1
        return self.offsets[partition]

    def kick(self, member: str) -> None:
        """Remove a member before its session ends, as an operator, watchdog or leave does."""
        if self.heard.pop(member, None) is not None:
            self.joining.pop(member, None)
            self._prepare()

    def expire(self) -> None:
        """Remove the members whose session has expired."""
        silent = [member for member, at in self.heard.items() if self.world.now - at > SESSION_S]
        for member in silent:
            if member not in self.joining:
                self.kick(member)

    def _prepare(self) -> None:
        if not self.is_preparing:
            self.is_preparing = True
            self.world.after(REBALANCE_S, self._complete, self.generation)

    def _complete(self, generation: int) -> None:
        if generation != self.generation or not self.is_preparing:
            return
        self.generation += 1
        self.is_preparing = False
        joined, self.joining = self.joining, {}
        self.heard = dict.fromkeys(joined, self.world.now)
        order = sorted(joined)
        self.parts = {
            member: frozenset(range(place, PARTITIONS, len(order)))
            for place, member in enumerate(order)
        }
        for answer in joined.values():
            answer(self.generation)


@dataclass
class Clock:
    """A member's clock: its rate is wrong, and it starts at any reading."""

    rate: float
    offset: float

    def at(self, now: float) -> float:
        return self.offset + now * self.rate


class Member:
    """A process with a Kafka client, reduced to what decides its beliefs."""

    def __init__(self, name: str, arena: "Arena") -> None:
        self.name, self.arena, self.world = name, arena, arena.world
        error = arena.world.rng.choice((-RATE_ERROR, 0.0, RATE_ERROR))
        self.clock = Clock(1.0 + error, arena.world.rng.uniform(0.0, 1e6))
        self.membership = arena.rules(PARTITIONS, arena.windows)
        self.generation = -1
        self.is_joining = False
        self.joins = 0
        """The number of the join that is under way: a client has one at a time."""
        self.is_cut = False
        self.paused_until = 0.0
        self.attempts = 0
        """The number of the attempt that is under way; an answer to an older one is not awaited."""

    @property
    def now(self) -> float:
        return self.clock.at(self.world.now)

    def believes(self, partition: int) -> bool:
        return self.membership.induced.leads_partition(partition, self.now)

    # Messages: each is delayed or lost; a paused member gets it later.

    def ask(self, request: Callable[[], object], then: Callable[..., None]) -> None:
        if not self._is_lost():
            self.world.after(self._delay_s(), self._arrive, request, then)

    def hear(self, step: Callable[..., None], *said: object) -> None:
        """Take a step when this process runs."""
        if self.world.now < self.paused_until:
            self.world.after(self.paused_until - self.world.now, self.hear, step, *said)
        elif not self._is_lost():
            step(*said)
            self.arena.look()

    def _arrive(self, request: Callable[[], object], then: Callable[..., None]) -> None:
        self.reply(then, request())

    def reply(self, then: Callable[..., None], said: object) -> None:
        self.world.after(self._delay_s(), self.hear, then, said)

    def _is_lost(self) -> bool:
        return self.is_cut or self.world.rng.random() < self.arena.loss

    def _delay_s(self) -> float:
        rng = self.world.rng
        return rng.uniform(0.0, 1.0) if rng.random() < self.arena.late else rng.uniform(0.001, 0.02)

    # The client: heartbeats, and a rebalance in three messages.

    def beat(self) -> None:
        self.world.after(self.arena.windows.heartbeat_s / self.clock.rate, self.beat)
        if self.world.now < self.paused_until:
            return
        self.count(self.membership.induced.lapsed(self.now))
        if self.generation >= 0 and not self.is_joining:
            asked, group = self.generation, self.arena.group
            self.ask(
                lambda: group.heartbeat(self.name, asked), lambda said: self.beaten(asked, said)
            )
        elif not self.is_joining or self.world.rng.random() < 0.1:  # An answer may be lost.
            self.rejoin()

    def beaten(self, asked: int, said: str) -> None:
        if asked == self.generation and not self.is_joining and said != OK:
            if said == NO_MEMBER:
                self.generation = -1  # As reset_generation does, a moment before it revokes.
            self.world.after(0.0, self.hear, self.rejoin)

    def rejoin(self) -> None:
        """Revoke first, slowly or not, then join."""
        self.is_joining = True
        self.joins += 1
        self.count(self.membership.revoked())
        slow_s = self.world.rng.uniform(0.0, 0.3)
        self.world.after(slow_s, self.hear, self.join, self.joins)

    def join(self, number: int) -> None:
        self.membership.released()
        if not self._is_lost():
            self.world.after(self._delay_s(), self._join_arrives, number)

    def _join_arrives(self, number: int) -> None:
        self.arena.group.join(self.name, lambda said: self.reply(self.joined, (number, said)))

    def joined(self, said: tuple[int, int]) -> None:
        number, generation = said
        if number == self.joins:
            self.generation = generation  # All later requests name it.
            group = self.arena.group
            self.ask(
                lambda: group.part_of(self.name, generation),
                lambda part: self.synced(number, part),
            )

    def synced(self, number: int, part: frozenset[int] | None) -> None:
        if number != self.joins:
            return
        if part is None:
            self.rejoin()
            return
        self.is_joining = False
        self.membership.assigned(part)
        self.publish()

    # The driver's rules: a record for a token, a commit for a proof.

    def publish(self) -> None:
        era, group = self.membership.era, self.arena.group
        for partition in self.membership.untitled:
            self.ask(
                lambda partition=partition: group.publish(partition),
                lambda offset, partition=partition: self.membership.titled(partition, offset, era),
            )

    def prove(self) -> None:
        self.world.after(self.arena.windows.heartbeat_s / self.clock.rate, self.prove)
        if self.world.now >= self.paused_until:
            self.publish()
            self.attempts += 1
            self.commit(self.attempts, self.membership.attempt(self.now))

    def commit(self, number: int, attempt: Attempt) -> None:
        """Send a commit, and retry it under the generation of that time, as clients do."""
        if number != self.attempts:
            return
        asked, group = self.generation, self.arena.group
        self.ask(
            lambda: group.commit(self.name, asked),
            lambda said: self.committed(number, attempt, said),
        )
        self.world.after(0.1, self.hear, self.commit, number, attempt)

    def committed(self, number: int, attempt: Attempt, said: str) -> None:
        if number != self.attempts:
            return
        self.attempts += 1
        if said == OK:
            self.count(self.membership.accepted(attempt, self.now))
        else:
            self.count(self.membership.refused(attempt))

    def receive(self, partition: int) -> None:
        """Take a record of a partition that is still fetched: no broker checks membership."""
        received = getattr(self.membership, "received")  # noqa: B009 - Only ByReceipt has it.
        self.count(received(partition, self.now))

    def count(self, events: list[Event]) -> None:
        self.arena.counters.update(type(each).__name__ for each in events)
        for each in events:
            if isinstance(each, Acquired):
                self.arena.begun(each)


@dataclass
class Arena:
    """One run: a group, its members, the faults, and the members' beliefs."""

    world: World
    windows: Windows
    rules: Callable[[int, Windows], Membership]
    loss: float = 0.01
    late: float = 0.05
    problems: list[str] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)
    tokens: Counter[int] = field(default_factory=Counter)
    """The greatest token of each partition that was used."""

    def __post_init__(self) -> None:
        self.group = Coordinator(self.world)
        self.members = [Member(name, self) for name in MEMBERS]
        for member in self.members:
            self.world.after(self.world.rng.uniform(0.0, 0.3), member.beat)
            self.world.after(self.world.rng.uniform(0.3, 0.6), member.prove)
        self.world.after(TICK_S, self._tick)
        self.world.after(1.0, self._trouble)

    def look(self) -> None:
        """Check that no two members believe in a partition at the same instant."""
        for partition in range(PARTITIONS):
            believers = [each.name for each in self.members if each.believes(partition)]
            self.counters["led"] += bool(believers)
            if len(believers) > 1:
                self.problems.append(f"{self.world.now:.3f}: {believers} lead {partition}")

    def begun(self, tenure: Acquired) -> None:
        """Check that tokens do not fall: else a guard would reject the writes of the holder."""
        if tenure.token < self.tokens[tenure.partition]:
            self.problems.append(f"{self.world.now:.3f}: {tenure} has a token that is over")
        self.tokens[tenure.partition] = tenure.token

    def _tick(self) -> None:
        self.world.after(TICK_S, self._tick)
        self.group.expire()
        for member in self.members:
            for partition in getattr(member.membership, "fetched", ()):
                member.hear(member.receive, partition)
        self.look()

    def _trouble(self) -> None:
        rng = self.world.rng
        if self.world.now > TROUBLE_S:
            return
        self.world.after(rng.uniform(0.1, 1.0), self._trouble)
        member = rng.choice(self.members)
        match rng.choice(("kick", "kick", "pause", "cut")):
            case "kick":
                self.group.kick(member.name)
            case "pause":
                member.paused_until = self.world.now + rng.uniform(0.1, 3.0)
            case _:
                member.is_cut = True
                self.world.after(rng.uniform(0.2, 3.0), setattr, member, "is_cut", False)
