"""The names of events, effects and messages in a node's trace, and the members that it shows."""

from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from docstore.runtime.trace import of_documents, of_machines, of_streams
from docstore.runtime.trace.brief import BriefKind, Table

RANKS = ("occasion", "routine", "repeated", "turn")
TABLES: dict[str, Table] = {
    "documents": of_documents.TABLE,
    "sessions": of_machines.SESSIONS,
    "streams": of_streams.TABLE,
    "webhooks": of_machines.WEBHOOKS,
}


def kinds() -> str:
    """Return a line for each kind of each machine: its rank, facts and items."""
    lines = {
        f"{machine}: {kind.name} {RANKS[shape.rank]} ({' '.join(kind.facts)})"
        f" [{' '.join(kind.items)}]"
        for machine, table in TABLES.items()
        for shape in table.values()
        if shape is not None
        for kind in _kinds_of(shape.take)
    }
    return "".join(f"{line}\n" for line in sorted(lines))


def _kinds_of(take: Callable[..., Any]) -> Iterator[BriefKind]:
    """Yield the kinds that a function returns: those that it names, or holds."""
    assert isinstance(take, FunctionType)
    held = [cell.cell_contents for cell in take.__closure__ or ()]
    held += [part for each in held if isinstance(each, tuple) for part in each]
    named = [take.__globals__.get(name) for name in take.__code__.co_names]
    yield from (each for each in (*held, *named) if isinstance(each, BriefKind))
