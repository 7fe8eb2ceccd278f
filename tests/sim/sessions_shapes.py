"""Shapes of runs of sessions, chosen by the seed so that all of them occur."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from docstore.sessions.holder import WINDOW
from docstore.sessions.timing import SessionsConfig
from tests.sim.clocks import RATE_ERROR
from tests.sim.nemesis import BESIDE

NODE_KINDS = (
    "crash", "pause", "cut", "oneway", "isolate", "split", "flap", "storm", "drain", "move",
    "delude", "clock", "slow", "full", "kill", "ping_pong",
)  # fmt: skip
ACTOR_KINDS = ("freeze", "deaf", "half", "die", "ghost")
TURNS = ("/core/elections/e", "/core/locks/l")
GROUPED = ("/core/roles/r", "/core/groups/g")
FAULTS_S, HEALING_S = 12.0, 11.0


@dataclass(frozen=True, slots=True)
class Shape:
    """The kinds of faults and operations that a run prefers."""

    size: int = 3
    slots: int = 2
    lessees: int = 2
    candidates: int = 3
    """Number at each election, and at each lock."""
    turns: tuple[str, ...] = ("/core/elections/e",)
    members: int = 3
    """Number in each group."""
    groups: tuple[str, ...] = ()
    kafka: int = 0
    """Kafka clients in a group of their own."""
    partitions: int = 3
    mode: str = "exclusive"
    instances: bool = False
    slowpokes: float = 0.1
    """Share of revocations that take longer than they may."""
    beats: int = 8
    """Pulses in a session."""
    leaves_s: float = 8.0
    """Greatest time after which most members leave."""
    meddlers: int = 1
    operators: int = 0
    """Number of operators that transfer elections from a leader to another candidate."""
    attached: int = 4
    """Number of documents that holders attach to their leases, at random."""
    guarded: int = 2
    ttl_ms: int = 1_500
    is_tight: bool = True
    """Whether holders believe for as long as rates allow, not for two thirds of that."""
    turn_s: float = 3.0
    """Greatest time for which most holders keep a turn before they release it."""
    grace_ms: int = 0
    ask_timeout_s: float = 1.5
    kinds: tuple[str, ...] = NODE_KINDS
    beside: tuple[str, ...] = ()
    """Kinds of the second fault, where two strike at a time."""
    actor_kinds: tuple[str, ...] = ACTOR_KINDS
    trouble: float = 1.0
    loss: float = 0.02
    straggle: float = 0.02
    """Share of the messages between actors and nodes that are up to a second late."""
    ghosts: float = 0.1
    """Share of requests that arrive a second time, much later."""
    faults_s: float = FAULTS_S
    is_near: bool = False
    """Whether the leases of candidates lie in the slots of what they want."""

    @property
    def window_s(self) -> float:
        """Return for how long a proof is valid: as usual, or for as long as rates allow."""
        share = (1.0 - RATE_ERROR) / (1.0 + RATE_ERROR) * 0.999 if self.is_tight else WINDOW
        return self.ttl_ms / 1000 * share


def shape_of(seed: int, beside: tuple[str, ...] = (*BESIDE, "kill", "move")) -> Shape:
    """Return the shape of a seed's run: each kind of fault is in every second one.

    beside: kinds of the faults that strike beside others; () for one fault at a time.
    """
    rng = Random(seed * 32_452_843 + 17)
    kinds = tuple(kind for kind in NODE_KINDS if rng.random() < 0.5)
    actor_kinds = tuple(kind for kind in ACTOR_KINDS if rng.random() < 0.6)
    aims = rng.choice((TURNS, TURNS, GROUPED, GROUPED, (*TURNS, *GROUPED)))
    return Shape(
        size=rng.choice((3, 3, 5)),
        slots=rng.choice((1, 2, 4)),
        lessees=rng.choice((1, 2, 3)) if aims is TURNS else rng.choice((0, 1)),
        candidates=rng.choice((2, 3, 4)),
        turns=_some(rng, [each for each in aims if each in TURNS]),
        members=rng.choice((2, 3, 4)),
        groups=_some(rng, [each for each in aims if each in GROUPED]),
        partitions=rng.choice((1, 2, 4)),
        mode=rng.choice(("exclusive", "exclusive", "nonExclusive")),
        instances=rng.random() < 0.3,
        slowpokes=rng.choice((0.0, 0.1, 0.5)),
        meddlers=rng.choice((0, 1)),
        ttl_ms=rng.choice((800, 1_500, 2_500)),
        is_tight=rng.random() < 0.7,
        grace_ms=rng.choice((0, 0, 400)),
        ask_timeout_s=rng.choice((0.8, 1.5)),
        kinds=kinds or ("crash",),
        beside=beside,
        actor_kinds=actor_kinds,
        is_near=rng.random() < 0.5,
        operators=int(seed % 4 == 3),
        kafka=3 * (seed % 16 == 15),
    )


def _some(rng: Random, links: Sequence[str]) -> tuple[str, ...]:
    """Return at least one of them, if there are any."""
    return tuple(rng.sample(links, rng.randint(1, len(links)))) if links else ()


def config_of(shape: Shape) -> SessionsConfig:
    """Return the times and bounds of a shape's nodes.

    A write is late by less than 3 s and a node's patience with it, so the last pass is later.
    """
    return SessionsConfig(
        ask_timeout_s=shape.ask_timeout_s,
        resend_s=(1.0, 1.0),
        passes_s=(0.0, 1.0, 3.0, 6.5),
    )
