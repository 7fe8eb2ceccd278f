"""Processes outside of the group: holders, candidates, members, each on a clock of its own.

An actor asks nodes over links that lose, double, delay and reorder. It may stand still while its
clock goes on, and what arrives waits; it may crash, and begin again knowing nothing. Each of its
steps goes through `_step`, after which invariants are checked: no belief begins anywhere else.
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
"""Until then an actor notices that the node it asked is dead."""


class Submit(NamedTuple):
    """Carry out an operation, as any client asks for. Answered by an Answer."""

    operation: Operation
    timeout_s: float = 2.0


class Query(NamedTuple):
    """Ask the owner of a document (`wire/sessions_messages.py`). Answered by a Reply."""

    link: str
    kind: str
    argument: Any
    timeout_s: float = 2.0


class KeepAlives(NamedTuple):
    """Renew leases, by their ids. Answered by ({those alive}, {those gone})."""

    ids: tuple[str, ...]
    timeout_s: float


class Attached(NamedTuple):
    """Tell a lease of a document, then change that. Answered by an Answer, 410 without a lease.

    late_s: by how much the change is late on its way.
    """

    lease: str
    operation: Operation
    late_s: float = 0.0
    timeout_s: float = 2.0


Request = Submit | Query | KeepAlives | Attached


class Sent(NamedTuple):
    """When a request was given to the link: by the actor's clock, and in truth."""

    stamp: float
    at: float


Then = Callable[[Any, Sent], None]
"""(what was answered, None if nobody did; when it had been asked)."""


class Arena(Protocol):
    """Where actors are: nodes that serve them, and who watches."""

    world: World
    watch: Any
    """Who checks what must hold: `sessions_invariants.py`."""
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
        """Share of requests that come a second time, much later."""
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
        """Lose, delay, double and repeat nothing any more; connections that hung are reset."""
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
    """One process. Its kinds say what it does when it begins, and what it believes."""

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

    # What its kinds say

    def begin(self) -> None:
        """Begin to do what this kind of process does, knowing nothing."""

    def beliefs(self) -> list[str]:
        """Return what it believes to have to itself at this moment."""
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
        """Stand still; the clock goes on, and what arrives waits."""
        self.paused, self._paused_at = True, self.world.now

    def resume(self) -> None:
        """Go on, with all that has waited."""
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
        # A little later, since this must not come before, by a rounding.
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
        """Have an operation carried out; `then` is told how it ended, None if nobody says."""
        self.ask(Submit(operation), lambda answer, sent: then(answer))

    def ask(self, request: Request, then: Then, *, link: str = "") -> None:
        """Ask a node: the owner of `link`, as some are told, or any.

        The stamp is read as the request leaves.
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
        """Notice that a node is another one than was asked: the connection is broken."""
        if life != self.life or number not in self._pending:
            return
        now = self.arena.life_of(node)
        if not self.arena.is_up(node) or node_life not in (-1, now):
            self._step(life, self._answered, number, None)
        else:
            self.world.after(BREAKS_S, self._look_after, life, number, node, now)

    def reset(self) -> None:
        """Lose all connections: nobody answers what has been asked so far."""
        for number in list(self._pending):
            self._step(self.life, self._answered, number, None)

    def arrived(self, life: int, number: int, said: Any) -> None:
        """Take what a node says, now or when this actor goes on."""
        self._step(life, self._answered, number, said)

    def _answered(self, number: int, said: Any) -> None:
        then, sent = self._pending.pop(number, (None, None))
        if then is not None and sent is not None:
            then(said, sent)


def is_settled(answer: Answer | None) -> bool:
    """Say whether an answer tells what is: nothing has to be asked again."""
    return answer is not None and answer.status < 500 and not answer.unknown


def result_of(reply: Reply | None) -> Any:
    """Return the result of a call, None if nobody knows."""
    return None if reply is None or reply.status >= 300 else reply.result
