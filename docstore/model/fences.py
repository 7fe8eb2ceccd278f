"""Fences: refuse a delayed write of a former holder of a lock, lease, role or lead.

Whoever acts under a lock, a lease, a role or a lead holds a fencing token that grows with every
change of holder (Kleppmann, "How to do distributed locking", 2016). It sends the token along with
each write; the document remembers the greatest that it has accepted, for each scope, and refuses a
smaller one (rule F1). The server attaches no meaning to scope or token: which lock it is, and who
gave the token, is an agreement among the writers.

What a document remembers lies in its newest row, so it is as durable as the row, and every later
row carries it on: unfenced ones and tombstones too (rule F2). It ends when the tombstone is let go
of.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgpack

from docstore.model.document import Row

SCOPES_MAX = 8
"""Scopes remembered for one document, at most."""
_FENCED = (b"\x99", b"\x9a", b"\x9b")
"""How the identity of an operation begins that may carry fences: an array of nine (msgpack), or of
one more in a batch, or of two if it says who wanted it."""
_PLACE = 8


class Fence(NamedTuple):
    """One scope, and the greatest token that was accepted under it."""

    scope: str
    token: int


OF_THE_STORE = Fence("", 0)
"""Fence of the store's own updates. They act under no holder: they pass, and are not remembered.
The scope of a request always has a name."""


def is_of_the_store(fence: Sequence[Any]) -> bool:
    """Say whether the store itself makes this update."""
    return tuple(fence) == OF_THE_STORE


class TooLow(NamedTuple):
    """Why a token is refused: the fence that the document remembers."""

    remembered: Fence


class TooMany(NamedTuple):
    """Why a scope is refused: the document remembers as many as it can."""


def fences_of(row: Row | None) -> tuple[Fence, ...]:
    """Return what a document remembers, of its newest row, by scope."""
    if row is None or row.operation[:1] not in _FENCED:
        return ()
    packed: Sequence[Sequence[Any]] = msgpack.unpackb(row.operation)[_PLACE]
    return tuple(Fence(scope, token) for scope, token in packed)


def passed(  # Seam.
    remembered: tuple[Fence, ...], fence: Sequence[Any]
) -> tuple[Fence, ...] | TooLow | TooMany:
    """Return what the document remembers after a write with this fence, or why it is refused.

    fence: (scope, token), () for none. A token that is equal passes: its holder writes again.
    """
    if not fence or is_of_the_store(fence):
        return remembered
    said = Fence(*fence)
    others = tuple(each for each in remembered if each.scope != said.scope)
    for each in remembered:
        if each.scope == said.scope and each.token > said.token:
            return TooLow(each)
    if len(others) >= SCOPES_MAX:
        return TooMany()
    return tuple(sorted((*others, said)))
