"""Search of all orders of events, within bounds: python -m tests.sim.explorer [--states N].

Three replicas of one slot, a few ballots, a few writes to two documents, a crash. The events (a
message arrives, a commit returns, a replica prepares, gives up, crashes or gets a write) are tried
in every order, and messages may be lost. States that were met before are not explored again. After
each step the invariants are checked; the path to a violation is printed.

This search does not finish. Two narrower ones do. With `--ordered` the messages of a link arrive in
order and commits return at once, as they mostly do: two ballots and a write. `--late N` bounds how
many messages are late or lost, whichever these are: three ballots and writes to two documents with
N = 2, and a crash as well with N = 1.

Source: that few deviations from an ordinary schedule meet most faults is the delay bounding of
Emmi, Qadeer and Rakamaric (2011).

The replicas are the product's. Time does not advance. Any replica may prepare at any step, whether
or not others are heard, so that rivals meet in every order.
"""

import argparse
import hashlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from docstore.documents.depose import depose
from docstore.documents.events import Event, Requested
from docstore.documents.replica import Replica
from docstore.documents.term import Phase
from docstore.documents.timing import ReplicaConfig, SendingBounds
from docstore.machines.effects import Persist, Read, Send
from docstore.machines.events import LinkMade, Persisted, QueriesAnswered, Received, TurnEnded
from docstore.model.batch import batch_of
from docstore.model.operation import Operation
from docstore.ownership.configuration import Configuration, MemberEntry, first_registered
from docstore.storage.store import SaveConfiguration, Write
from docstore.wire.messages import Heartbeat
from tests.memory.ledger import Ledger
from tests.sim.invariants import Invariants, Violation
from tests.sim.process import Appending

NAMES = ("n0", "n1", "n2")
LINKS = ("/t/a", "/t/b")
NOW = 10.0

Choice = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds on the events of one path."""

    ballots: int = 3
    writes: int = 2
    crashes: int = 1
    ordered: bool = False
    """Links keep the order of messages, and commits return at once."""
    late: int | None = None
    """Greatest number of late messages, where commits return at once. None: any number.

    Messages on time arrive in the order of sending, before any other event; late ones arrive at
    any time after that, or never.
    """

    batched: bool = False
    """A write is an atomic batch of both documents, and a message about a slot has three rows."""

    @property
    def disks_are_at_once(self) -> bool:
        """Say whether a commit returns before any other event."""
        return self.ordered or self.late is not None


@dataclass(slots=True)
class Found:
    """Result of an exploration."""

    states: int = 0
    steps: int = 0
    complete: bool = False
    problem: str = ""
    way: tuple[Choice, ...] = ()


class Node:
    """One replica, its disk, and the commits that are on their way to it."""

    def __init__(self, name: str, configuration: Configuration, config: ReplicaConfig) -> None:
        self.name, self.boot, self.era = name, 0, 0
        self._config = config
        self.disk = Ledger()
        self.disk.apply([SaveConfiguration(first_registered(configuration).pack())])
        self.commits: list[tuple[int, list[Write], str]] = []
        """(token, writes, their text)."""
        self.replica: Replica

    def start(self) -> None:
        """Begin a life on what the disk holds."""
        self.boot += 1
        self.era += 1
        self.commits = []
        service = Appending()
        self.replica = Replica(
            self.name, self.disk.recovered(f"{self.name}.0", self.boot),
            service_for=lambda link, since: service, rng=Random(1), vote_rng=Random(1),
            config=self._config, now=NOW,
        )  # fmt: skip


class World:
    """Three nodes at one point of one path."""

    def __init__(self, bounds: Bounds) -> None:
        members = tuple(MemberEntry(name, f"{name}.0", "host", 7000) for name in NAMES)
        configuration = Configuration(1, "explored", 1, 1, None, members)
        self.bounds = bounds
        config = ReplicaConfig(sending=SendingBounds(page_rows=3 if bounds.batched else 256))
        self.nodes = {name: Node(name, configuration, config) for name in NAMES}
        self.flying: list[tuple[str, str, Any, str]] = []
        """(from, to, message, its text)."""
        self.late: list[tuple[str, str, Any, str]] = []
        """Messages that arrive at any time, or never."""
        self.ballots = self.writes = self.crashes = self.delays = 0
        self.invariants = Invariants()
        for node in self.nodes.values():
            node.start()
        for node in self.nodes.values():
            self._link(node)

    def _link(self, node: Node) -> None:
        for other in NAMES:
            if other != node.name:
                self._feed(node, LinkMade(other))

    def _feed(self, node: Node, event: Event) -> None:
        events = [event]
        while events:
            for effect in node.replica.step(events.pop(0), NOW):
                match effect:
                    case Send(to, message) if not isinstance(message, Heartbeat):
                        self._fly(node.name, to, message)
                    case Persist(token, writes) if self.bounds.disks_are_at_once:
                        node.disk.apply(writes)
                        events.append(Persisted(token))
                    case Persist(token, writes):
                        node.commits.append((token, list(writes), repr(writes)))
                    case Read(token, query):
                        events.append(QueriesAnswered([(token, node.disk.answer(query))]))
            if not events and node.replica.wants_turn:
                events.append(TurnEnded())
        self.invariants.after_step(node)  # type: ignore[arg-type]  # It has all that is checked.

    def _fly(self, source: str, to: str, message: Any) -> None:
        """Send a message, unless an equal one is on its way."""
        text = repr(message)
        if all((source, to, text) != (s, t, x) for s, t, _, x in self.flying):
            self.flying.append((source, to, message, text))

    # Choices

    def choices(self) -> Iterator[Choice]:
        """Yield everything that can happen next."""
        if self.bounds.late is None:
            yield from self._arrivals()
        elif self.flying:
            yield ("arrives", 0)
            if self.delays < self.bounds.late:
                yield ("is late", 0)
            return
        else:
            yield from (("arrives late", index) for index in range(len(self.late)))
        yield from self._deeds()

    def _arrivals(self) -> Iterator[Choice]:
        links: set[tuple[str, str]] = set()
        for index, (source, to, _, _) in enumerate(self.flying):
            if not self.bounds.ordered or (source, to) not in links:
                yield ("arrives", index)
            links.add((source, to))

    def _deeds(self) -> Iterator[Choice]:
        """Yield the events of nodes and their disks."""
        for node in self.nodes.values():
            if node.commits:
                yield ("committed", node.name)
            term = node.replica.core.logs[0].term
            if term is None:
                if self.ballots < self.bounds.ballots:
                    yield ("prepares", node.name)
            elif term.phase is Phase.OPEN:
                if self.writes < self.bounds.writes:
                    yield ("writes", node.name)
            else:
                yield ("gives up", node.name)
            if self.crashes < self.bounds.crashes:
                yield ("crashes", node.name)

    def do(self, choice: Choice) -> None:
        """Apply a choice."""
        kind, what = choice
        if kind == "is late":
            self.delays += 1
            self.late.append(self.flying.pop(what))
            return
        if kind in ("arrives", "arrives late"):
            flying = self.flying if kind == "arrives" else self.late
            source, to, message, _ = flying.pop(what)
            self._feed(self.nodes[to], Received(source, message))
            return
        node = self.nodes[what]
        if kind == "committed":
            token, writes, _ = node.commits.pop(0)
            node.disk.apply(writes)
            self._feed(node, Persisted(token))
        elif kind == "prepares":
            self.ballots += 1
            node.replica.takeover._prepare([0])
            self._feed(node, TurnEnded())
        elif kind == "gives up":
            depose(node.replica.core, node.replica.core.logs[0])
            self._feed(node, TurnEnded())
        elif kind == "writes":
            self.writes += 1
            body = b'{"n":%d}' % self.writes
            puts = [Operation(verb="PUT", link=link, body=body, creates=True) for link in LINKS]
            operation = batch_of(puts) if self.bounds.batched else puts[self.writes % 2]
            self._feed(node, Requested(self.writes, operation, NOW + 100))
        else:
            self.crashes += 1
            self.flying = [each for each in self.flying if node.name not in each[:2]]
            self.late = [each for each in self.late if node.name not in each[:2]]
            node.start()
            self._link(node)

    def fingerprint(self) -> bytes:
        """Return a digest of the state, decided rows included."""
        parts: list[Any] = [self.ballots, self.writes, self.crashes, self.delays]
        flying = [(source, to, text) for source, to, _, text in self.flying]
        parts.append(flying if self.bounds.late is not None else sorted(flying))
        parts.append(sorted((source, to, text) for source, to, _, text in self.late))
        decided = self.invariants.decided.get(0, [])
        parts.append([(row.n, row.ballot, row.digest) for row in decided])
        for node in self.nodes.values():
            core = node.replica.core
            log, term = core.logs[0], core.logs[0].term
            parts.append(
                (log.promised, log.adopted, log.end, log.durable, log.decided, log.ballots,
                 log.full, sorted(log.pending), len(core.outbox.unfinished), node.boot)
            )  # fmt: skip
            parts.append([text for _, _, text in node.commits])
            parts.append(repr(node.disk.recovered("", 0).slots))
            if term is not None:
                followers = [(p, f.acked, f.sent, f.adopted) for p, f in term.followers.items()]
                parts.append(
                    (term.ballot, term.phase, term.base, term.recovered,
                     sorted(term.ends.items()), sorted(term.recovery.evidence),
                     len(term.clients.updates),
                     followers)
                )  # fmt: skip
        return hashlib.blake2b(repr(parts).encode(), digest_size=12).digest()


def explore(
    bounds: Any, states_max: int, seconds_max: float = 1e9, *, begin: Callable[[Any], Any] = World
) -> Found:
    """Explore every path, the open ones in any order; stop at a violation or a bound.

    begin: makes the world at the start of all paths, within the bounds.
    """
    found, seen, rng = Found(), set(), Random(0)
    ways: list[tuple[Choice, ...]] = [()]
    until = time.monotonic() + seconds_max
    while ways:
        if found.states >= states_max or time.monotonic() > until:
            return found
        if bounds.late is None or begin is not World:
            # Not the last: a search that is cut short must not have stayed in one region.
            index = rng.randrange(len(ways))
            ways[index], ways[-1] = ways[-1], ways[index]
        way = ways.pop()
        try:
            world = begin(bounds)
            for choice in way:
                world.do(choice)
            while True:
                mark = world.fingerprint()
                if mark in seen:
                    break
                seen.add(mark)
                found.states += 1
                first, *others = [*world.choices()] or [None]
                ways += [(*way, other) for other in others]
                if first is None:
                    break
                way = (*way, first)
                found.steps += 1
                world.do(first)
        except (Violation, AssertionError, KeyError) as error:
            found.problem, found.way = f"{type(error).__name__}: {error}", way
            return found
    found.complete = True
    return found


def main() -> int:
    """Explore from the command line; print the result."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.explorer", description=__doc__)
    parser.add_argument("--states", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--ballots", type=int, default=3)
    parser.add_argument("--writes", type=int, default=2)
    parser.add_argument("--crashes", type=int, default=1)
    parser.add_argument("--ordered", action="store_true")
    parser.add_argument("--late", type=int)
    parser.add_argument("--batched", action="store_true")
    options = parser.parse_args()
    bounds = Bounds(
        options.ballots, options.writes, options.crashes, options.ordered, options.late,
        options.batched,
    )  # fmt: skip
    began = time.monotonic()
    found = explore(bounds, options.states, options.seconds)
    took_s = time.monotonic() - began
    whole = "all there are" if found.complete else "not all"
    print(f"{found.states} states ({whole}), {found.steps} steps, {took_s:.0f} s")
    if found.problem:
        print(found.problem, *found.way, sep="\n  ")
    return 1 if found.problem else 0


if __name__ == "__main__":
    sys.exit(main())
