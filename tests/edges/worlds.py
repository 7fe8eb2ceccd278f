"""A hash of the trace of each simulated world with a seed: a refactoring does not change it.

It covers requests, answers, counters and random draws: no path, no class and no address.
"""

import hashlib
import sqlite3
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from random import Random
from typing import Any

from gossip import State
from tests.disk import script
from tests.docstore.ownership import storm
from tests.gossip.test_worlds_agree import stormy
from tests.sim import branching, kafka_ablations, sessions, streaming
from tests.sim import run as documents
from tests.sim.profiles import profile_of
from tests.sim.sessions_shapes import shape_of as session_shape_of
from tests.sim.streaming_shapes import shape_of as stream_shape_of
from tests.whole import run as whole
from tests.whole.alone import AloneAtLevel1, AloneAtLevel2
from tests.whole.holding import Holding
from tests.whole.sessions import Sessions
from tests.whole.spoiling import Spoiling
from tests.whole.walking import Walking

Trace = Callable[[int], Any]
"""Returns the values that make up the trace of a seed."""
BATCHES = 60
CHANCE = {"boot", "checksum"}
"""Columns of the tables that differ from start to start."""


def traced(world: str, seed: int) -> str:
    """Return the hash of a seed in a world."""
    return hashlib.sha256(repr(_plain(WORLDS[world](seed))).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """Return a value without the names of its classes, and in one order."""
    if is_dataclass(value) and not isinstance(value, type):
        return [_plain(getattr(value, each.name)) for each in fields(value)]
    if isinstance(value, Counter):
        return sorted((str(name), count) for name, count in value.items() if count)
    if isinstance(value, Mapping):
        return [[_plain(key), _plain(each)] for key, each in value.items()]
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, value), key=repr)
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, Random):
        return hashlib.sha256(repr(value.getstate()).encode()).hexdigest()
    return value if isinstance(value, int | float | bytes | None) else str(value)


@contextmanager
def _watched() -> Iterator[list[Any]]:
    """Keep the worlds that are made meanwhile."""
    made: list[Any] = []
    begin = documents.World.__init__

    def begun(self: Any, seed: int) -> None:
        begin(self, seed)
        made.append(self)

    documents.World.__init__ = begun  # type: ignore[method-assign]
    try:
        yield made
    finally:
        documents.World.__init__ = begin  # type: ignore[method-assign]


def _simulated(play: Callable[[int], Any]) -> Trace:
    """Return the trace of a world in virtual time: its outcome, its events, its random draws."""

    def trace(seed: int) -> Any:
        with _watched() as worlds:
            outcome = play(seed)
        ending = [
            getattr(outcome, name, "") for name in ("trace", "problems", "stuck", "operations")
        ]
        lots = [(each.now, each.events, each.rng) for each in worlds]
        return ending, getattr(outcome, "counters", ""), lots

    return trace


def _of_whole_nodes(kind: type[whole.Run], seed: int) -> Any:
    kept: list[Any] = []

    class Kept(kind):  # type: ignore[misc, valid-type]
        def bury(self) -> None:
            kept.append((_plain(self.story), _plain(self.rng)))
            super().bury()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Nodes are ended in the middle.
        outcome = whole.run(seed, Kept)
    ending = (outcome.problems, outcome.stuck, outcome.operations, outcome.virtual_s)
    return kept, ending, outcome.faults, outcome.counters


def _of_gossip(seed: int) -> Any:
    world = stormy(seed, codec=True)
    changes = [world.changes_to(state) for state in State]
    return world.steps, world.datagrams, Counter(world.oracles.fired), changes


def _of_tables(seed: int) -> Any:
    """Return all rows of the tables after batches of every kind."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        writer = script.Writer(connection, script.NO_FILE)
        writer.prepare("store")
        for batch in script.batches(Random(seed), BATCHES):
            writer.commit(batch)
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        names = sorted(name for (name,) in tables.fetchall() if name != "journal")
        return [(name, sorted(_rows(connection, name), key=repr)) for name in names]
    finally:
        connection.close()


def _rows(connection: sqlite3.Connection, table: str) -> Iterator[list[Any]]:
    found = connection.execute(f"SELECT * FROM {table}")
    columns = [each[0] for each in found.description]
    for row in found:
        yield [value for name, value in zip(columns, row, strict=True) if name not in CHANCE]


def _of_documents(nodes: str, seed: int) -> documents.Outcome:
    return documents.run(seed, profile_of(seed, nodes))


def _of_streams(register: bool, seed: int) -> documents.Outcome:
    return streaming.run(seed, stream_shape_of(seed), register=register)


def _of_sessions(register: bool, seed: int) -> documents.Outcome:
    return sessions.run(seed, session_shape_of(seed), register=register)


def _of_branches(level: int, seed: int) -> documents.Outcome:
    """Play the seeds of one level: even ones are of level 1."""
    number = 2 * seed + level - 1
    shape = branching.shape_of(number)
    assert shape.level == level
    return branching.run(number, shape)


QUICK: Mapping[str, Trace] = {
    **{f"documents {nodes}": _simulated(partial(_of_documents, nodes))
       for nodes in ("both", "atomic", "batches", "keyed")},
    "streams register": _simulated(partial(_of_streams, True)),
    "streams replicas": _simulated(partial(_of_streams, False)),
    "sessions register": _simulated(partial(_of_sessions, True)),
    "sessions replicas": _simulated(partial(_of_sessions, False)),
    "branching level 1": _simulated(partial(_of_branches, 1)),
    "branching level 2": _simulated(partial(_of_branches, 2)),
    "roles on kafka": _simulated(kafka_ablations.run),
    "vote": _simulated(storm.weather),
    "gossip": _of_gossip,
    "tables": _of_tables,
}  # fmt: skip
"""Worlds that take a second or two for a seed."""
WHOLE: Mapping[str, Trace] = {
    "whole": partial(_of_whole_nodes, whole.Run),
    "whole alone level 1": partial(_of_whole_nodes, AloneAtLevel1),
    "whole alone level 2": partial(_of_whole_nodes, AloneAtLevel2),
    "whole holding": partial(_of_whole_nodes, Holding),
    "whole sessions": partial(_of_whole_nodes, Sessions),
    "whole spoiling": partial(_of_whole_nodes, Spoiling),
    "whole walking": partial(_of_whole_nodes, Walking),
}
"""Worlds of whole nodes, which take ten seconds for a seed."""
WORLDS: Mapping[str, Trace] = {**QUICK, **WHOLE}
