"""Processes outside of the group: holders, candidates, members, each on a clock of its own.

An actor sends requests to nodes over links that lose, double, delay and reorder messages. It may
be paused, while its clock continues and messages queue; it may crash, and restart without memory.
Each of its steps goes through `_step`, after which invariants are checked: no belief begins
anywhere else.
"""

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple, Protocol

from docstore.model.operation import Answer, Operation
from docstore.testing.simulation.network import Network
from docstore.testing.simulation.world import World
from docstore.wire.sessions_messages import Reply
from tests.sim.clocks import LocalClock

GHOST_S = 6.0
BREAKS_S = 0.3
"""Interval at which an actor checks that the node it asked still runs."""


class Submit(NamedTuple):
    """Execute an operation, as for any client. The reply is an Answer."""

    operation: Operation
    timeout_s: float = 2.0


class Query(NamedTuple):
    """Query the owner of a document (`wire/sessions_messages.py`). The reply is a Reply."""

    link: str
    kind: str
    argument: Any
    timeout_s: float = 2.0


class KeepAlives(NamedTuple):
    """Renew leases, by their ids. The reply is ({live ids}, {ended ids})."""

    ids: tuple[str, ...]
    timeout_s: float


class Attached(NamedTuple):
    """Attach a document to a lease, then change it. The reply is an Answer, 410 without a lease.

    late_s: delay of the change.
    """

    lease: str
    operation: Operation
    late_s: float = 0.0
    timeout_s: float = 2.0


Request = Submit | Query | KeepAlives | Attached


class Sent(NamedTuple):
    """Time at which a request was sent, by the actor's clock and in true time."""

    stamp: float
    at: float


Then = Callable[[Any, Sent], None]
"""(the answer, None without one; when the request was sent)."""


class Arena(Protocol):
    """Surroundings of actors: the nodes that serve them, and the invariants."""

    world: World
    watch: Any
    """The invariants: `sessions_invariants.py`."""
    links: "Links"

    def serve(self, node: str, request: Request, answered: Callable[[Any], None]) -> None: ...
    def is_up(self, node: str) -> bool: ...
    def life_of(self, node: str) -> int: ...
    def owner_of(self, link: str) -> str: ...


class Links:
    """The links between actors and nodes."""

    def __init__(self, arena: Arena, nodes: list[str]) -> None:
        self.network = Network(arena.world, self._deliver)
        self.nodes = nodes
        self.actors: dict[str, Actor] = {}
        self.ghosts = 0.0
        """Share of requests that arrive a second time, much later."""
        self._arena = arena

    def ask(self, actor: "Actor", number: int, node: str, request: Request) -> None:
        """Send a request to a node."""
        world, life = self._arena.world, self._arena.life_of(node)
        self.network.send(actor.name, actor.life, node, life, (number, request))
        if world.rng.random() < self.ghosts:
            late_s = world.rng.random() * GHOST_S
            world.after(late_s, self._haunt, actor, actor.life, node, (number, request))

    def _haunt(self, actor: "Actor", life: int, node: str, message: Any) -> None:
        self._arena.watch.count("ghosts")
        self.network.send(actor.name, life, node, self._arena.life_of(node), message)

    def heal(self) -> None:
        """Stop losing, delaying, doubling and repeating messages; reset hanging connections."""
        weather = self.network.weather
        weather.loss = weather.straggle = weather.double = 0.0
        self.network.cuts.clear()
        self.ghosts = 0.0
        for actor in self.actors.values():
            actor.reset()

    def _deliver(self, source: str, life: int, to: str, to_life: int, message: Any) -> None:
        number, what = message
        if to in self.actors:
            self.actors[to].arrived(to_life, number, what)
        elif self._arena.is_up(to) and self._arena.life_of(to) == to_life:
            self._arena.serve(
                to, what, lambda said: self.network.send(to, to_life, source, life, (number, said))
            )


class Actor:
    """One process. Subclasses define what it does when it starts, and what it believes."""

    def __init__(self, name: str, arena: Arena) -> None:
        self.name = name
        self.arena = arena
        self.world = arena.world
        self.clock = LocalClock(arena.world, Random(f"clock {arena.world.seed} {name}"))
        self.rng = Random(f"actor {arena.world.seed} {name}")
        self.up = False
        self.paused = False
        self.life = 0
        self._inbox: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._pending: dict[int, tuple[Then, Sent]] = {}
        self._numbers = 0
        self._paused_at = 0.0
        arena.links.actors[name] = self

    # Defined by subclasses

    def begin(self) -> None:
        """Start the work of this kind of process, without memory."""

    def beliefs(self) -> list[str]:
        """Return what it believes at this moment to hold exclusively."""
        return []

    # Lives

    def start(self) -> None:
        """Begin a life."""
        if not self.up:
            self.up, self.paused = True, False
            self.life += 1
            self._inbox, self._pending = [], {}
            self._step(self.life, self.begin)

    def crash(self) -> None:
        """End a life."""
        self.up = False
        self.life += 1

    def pause(self) -> None:
        """Pause; the clock continues, and messages queue."""
        self.paused, self._paused_at = True, self.world.now

    def resume(self) -> None:
        """Resume, with all that was queued."""
        self.paused = False
        inbox, self._inbox = self._inbox, []
        for what, arguments in inbox:
            self._step(self.life, what, *arguments)

    # Steps

    def later(self, seconds: float, what: Callable[..., None], *arguments: Any) -> None:
        """Do something after some time of this actor's clock, in this life."""
        self.world.after(seconds / self.clock.rate, self._step, self.life, what, *arguments)

    def at(self, reading: float, what: Callable[..., None], *arguments: Any) -> None:
        """Do something when the clock shows this, or just after."""
        # A little later: a rounding must not make it early.
        after_s = self.clock.until(reading) + 1e-6
        self.world.after(after_s, self._step, self.life, what, *arguments)

    def _step(self, life: int, what: Callable[..., None], *arguments: Any) -> None:
        if not self.up or life != self.life:
            return
        if self.paused:
            self._inbox.append((what, arguments))
            return
        what(*arguments)
        self.arena.watch.after_actor(self)

    # Requests

    def submit(self, operation: Operation, then: Callable[[Answer | None], None]) -> None:
        """Send an operation; `then` gets the answer, None without one."""
        self.ask(Submit(operation), lambda answer, sent: then(answer))

    def ask(self, request: Request, then: Then, *, link: str = "") -> None:
        """Send a request to any node, or with `link` often to its owner.

        The stamp is read when the request is sent.
        """
        node = self._node_for(link)
        self._numbers += 1
        number, sent = self._numbers, Sent(self.clock.now(), self.world.now)
        self._pending[number] = (then, sent)
        self.arena.links.ask(self, number, node, request)
        self.later(request.timeout_s + 0.1, self._answered, number, None)
        self.world.after(BREAKS_S, self._look_after, self.life, number, node)

    def _node_for(self, link: str) -> str:
        if link and self.rng.random() < 0.5:
            return self.arena.owner_of(link)
        nodes = self.arena.links.nodes
        up = [node for node in nodes if self.arena.is_up(node)]
        return self.rng.choice(up or nodes)

    def _look_after(self, life: int, number: int, node: str, node_life: int = -1) -> None:
        """End a request whose node has stopped or restarted: the connection is broken."""
        if life != self.life or number not in self._pending:
            return
        now = self.arena.life_of(node)
        if not self.arena.is_up(node) or node_life not in (-1, now):
            self._step(life, self._answered, number, None)
        else:
            self.world.after(BREAKS_S, self._look_after, life, number, node, now)

    def reset(self) -> None:
        """Break all connections: requests sent so far get no answer."""
        for number in list(self._pending):
            self._step(self.life, self._answered, number, None)

    def arrived(self, life: int, number: int, said: Any) -> None:
        """Take a node's answer, now or when this actor resumes."""
        self._step(life, self._answered, number, said)

    def _answered(self, number: int, said: Any) -> None:
        then, sent = self._pending.pop(number, (None, None))
        if then is not None and sent is not None:
            then(said, sent)


def is_settled(answer: Answer | None) -> bool:
    """Say whether an answer is final, so that no retry is needed."""
    return answer is not None and answer.status < 500 and not answer.unknown


def result_of(reply: Reply | None) -> Any:
    """Return the result of a call, None if it failed or got no reply."""
    return None if reply is None or reply.status >= 300 else reply.result
