"""Rules taken away one at a time, from outside: the harness must notice each."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.sim.run import Profile


@dataclass(frozen=True, slots=True)
class Ablation:
    """One rule removed: where it stands, what stands there instead, and what to aim with."""

    rule: str
    target: str
    replacement: object
    profile: Profile | None = None


ABLATIONS: dict[str, Ablation] = {}


@contextmanager
def ablated(name: str) -> Iterator[None]:
    """Run the body without a rule."""
    yield
