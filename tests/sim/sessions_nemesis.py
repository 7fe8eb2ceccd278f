"""Faults of sessions beside those of nodes: owners that move, and actors that are struck."""

from collections.abc import Sequence
from typing import Any, Protocol

from docstore.testing.simulation.world import World
from tests.sim.actors import Actor, Links
from tests.sim.groups_invariants import gap_s
from tests.sim.nemesis import Nemesis
from tests.sim.sessions_invariants import SessionInvariants
from tests.sim.sessions_shapes import Shape


class Ground(Protocol):
    """Target of the faults."""

    world: World
    shape: Shape
    nodes: Any
    links: Links
    watch: SessionInvariants
    actors: list[Actor]

    def owner_of(self, link: str) -> str: ...
    def drain(self, name: str) -> None: ...
    def move(self, link: str, *, deluded_s: float) -> None: ...


class SessionNemesis(Nemesis):
    """Strikes nodes as for documents, and owners and actors of sessions."""

    def __init__(self, ground: Ground, links: Sequence[str]) -> None:
        """links: documents whose owners it aims at."""
        shape = ground.shape
        super().__init__(ground.nodes, shape.faults_s, shape.kinds, shape.beside)
        self._ground = ground
        self._links = links
        self._actor_kinds = shape.actor_kinds
        if self._actor_kinds:
            self._world.after(0.5 + self._world.rng.random(), self._strike_actor)

    def _restart(self, name: str) -> None:
        if not self._cluster.processes[name].up:
            self._cluster.start(name)

    def _drain(self, name: str) -> None:
        """Drain a node, then stop it, and start it again."""
        process = self._cluster.processes[name]
        if process.up and not process.paused:
            self._ground.drain(name)
            self._world.after(self._duration(), self._stop, name, process.life)

    def _clock(self, name: str) -> None:
        """Let a node's wall clock be wrong for a while: sessions must not depend on it."""
        ahead_us = self._world.rng.choice((-3_600_000_000, 3_600_000_000))
        self._cluster.processes[name].clock_ahead_us = ahead_us
        self._world.after(self._duration(), self._right_clock, name)

    def _move(self, name: str) -> None:
        """Let another node own a document, as after any of the other faults."""
        self._ground.move(self._world.rng.choice(self._links), deluded_s=0.0)

    def _delude(self, name: str) -> None:
        """Let another node own a document, while the one that did believes that it does."""
        span_s = self._ground.shape.ttl_ms / 1000
        deluded_s = span_s * self._world.rng.choice((0.5, 1.5, 2.5))
        self._ground.move(self._world.rng.choice(self._links), deluded_s=deluded_s)

    def _kill(self, name: str) -> None:
        """Kill the node that owns a document."""
        self._crash(self._ground.owner_of(self._world.rng.choice(self._links)))

    def _ping_pong(self, name: str) -> None:
        """Let the owner of a document change three times in every span, for two of them."""
        link, span_s = self._world.rng.choice(self._links), self._ground.shape.ttl_ms / 1000
        for number in range(6):
            self._world.after(number * span_s / 3, self._hand_on, link)

    def _hand_on(self, link: str) -> None:
        if self._world.now < self._until:
            self._excuse(0.0)
            self._ground.move(link, deluded_s=0.0)

    # Actors

    def _strike(self) -> None:
        if self._world.now < self._until:
            self._excuse(4.0)
        super()._strike()

    def _strike_beside(self, kind: str, name: str) -> None:
        if self._world.now < self._until:
            self._excuse(4.0)
        super()._strike_beside(kind, name)

    def _excuse(self, seconds: float) -> None:
        session_s = self._ground.shape.ttl_ms / 1000
        self._ground.watch.of_groups.excuse(seconds + gap_s(session_s))

    def _strike_actor(self) -> None:
        if self._world.now >= self._until:
            return
        self._excuse(4.0 * self._ground.shape.ttl_ms / 1000)
        rng = self._world.rng
        kind, actor = rng.choice(self._actor_kinds), rng.choice(self._ground.actors)
        getattr(self, f"_{kind}_actor")(actor)
        self._world.after(0.1 + rng.random() * 1.5, self._strike_actor)

    def _span(self) -> float:
        """Return how long an actor is struck: about as long as it may believe, or far longer."""
        rng = self._world.rng
        return (
            self._ground.shape.ttl_ms
            / 1000
            * rng.choice((0.3, 0.9, 1.1, 3.0))
            * (0.8 + 0.4 * rng.random())
        )

    def _freeze_actor(self, actor: Actor) -> None:
        """Stop a process; what arrives waits, and its clock goes on."""
        if actor.up and not actor.paused:
            span_s = self._span()
            is_long = span_s > self._ground.shape.ttl_ms / 1000
            self._ground.watch.count("long_freezes" if is_long else "freezes")
            actor.pause()
            self._world.after(span_s, self._thaw, actor, actor.life)

    def _thaw(self, actor: Actor, life: int) -> None:
        if actor.life == life and actor.paused:
            actor.resume()

    def _deaf_actor(self, actor: Actor) -> None:
        """Cut a process off from all nodes."""
        self._cut_off(actor, self._ground.links.nodes)

    def _half_actor(self, actor: Actor) -> None:
        """Cut a process off from the owner of a document alone, in both directions or in one."""
        owner = self._ground.owner_of(self._world.rng.choice(self._links))
        self._cut_off(actor, [owner])

    def _cut_off(self, actor: Actor, nodes: Sequence[str]) -> None:
        both = self._world.rng.random() < 0.5
        pairs = {(node, actor.name) for node in nodes}
        pairs |= {(actor.name, node) for node in nodes} if both else set()
        cuts = self._ground.links.network.cuts
        cuts |= pairs
        self._world.after(self._span(), cuts.difference_update, pairs)

    def _die_actor(self, actor: Actor) -> None:
        """Kill a process, and start it again without memory."""
        if actor.up:
            actor.crash()
            self._world.after(self._span(), actor.start)

    def _ghost_actor(self, actor: Actor) -> None:
        """Let some requests arrive a second time, much later, perhaps at another owner."""
        self._ground.links.ghosts = self._ground.shape.ghosts

    def heal(self) -> None:
        """End all faults."""
        self._until = self._world.now
        self._cluster.network.cuts.clear()
        self.calm_down()
        for process in self._cluster.processes.values():
            process.disk_slowness, process.disk_is_full = 1.0, False
            process.clock_ahead_us = 0
            if not process.up:
                self._cluster.start(process.name)
            elif process.paused:
                process.resume()
        for name in self._cluster.names:
            if self._is_draining(name):
                self._cluster.crash(name)
                self._cluster.start(name)
        self._ground.links.heal()
        for actor in self._ground.actors:
            if actor.paused:
                actor.resume()
            actor.start()
        # A draining coordinator was killed just now, as in a crash: that was the last fault.
        self._ground.watch.of_groups.calm(gap_s(self._ground.shape.ttl_ms / 1000))

    def _is_draining(self, name: str) -> bool:
        process = self._cluster.processes[name]
        replica = getattr(process, "replica", None)
        return bool(process.is_draining if replica is None else replica.core.is_draining)
