"""Fences: refuse a delayed write of a former holder of a lock, lease, role or lead.

The holder of a lock, a lease, a role or a lead has a fencing token that grows with every change of
holder (Kleppmann, "How to do distributed locking", 2016), and sends it with each write. A document
remembers the greatest accepted token of each scope, and refuses a smaller one (rule F1). The server
attaches no meaning to scope or token: the writers agree on them.

The tokens are in the newest row of a document, so they are as durable as the row. Every later row
repeats them, also unfenced ones and tombstones (rule F2), until the tombstone is compacted.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgpack

from docstore.model.document import Row

SCOPES_MAX = 8
"""Most scopes that a document remembers."""
_FENCED = (b"\x99", b"\x9a", b"\x9b", b"\x9c")
"""First bytes of an operation's identity with fences: an array (msgpack) of nine, of ten in a
batch, of eleven with a principal, of twelve with an agenda."""
_PLACE = 8


class Fence(NamedTuple):
    """One scope, and the greatest token that was accepted under it."""

    scope: str
    token: int


OF_THE_STORE = Fence("", 0)
"""Fence of the store's own updates: it always passes, and documents do not remember it.

The scope of a request is never empty.
"""


def is_of_the_store(fence: Sequence[Any]) -> bool:
    """Say whether the store itself makes an update."""
    return tuple(fence) == OF_THE_STORE


class TooLow(NamedTuple):
    """Refusal of a token: the document remembers a greater one."""

    remembered: Fence


class TooMany(NamedTuple):
    """Refusal of a scope: the document remembers SCOPES_MAX others."""


def fences_of(row: Row | None) -> tuple[Fence, ...]:
    """Return the fences that a document remembers. row: its newest one."""
    if row is None or row.operation[:1] not in _FENCED:
        return ()
    packed: Sequence[Sequence[Any]] = msgpack.unpackb(row.operation)[_PLACE]
    return tuple(Fence(scope, token) for scope, token in packed)


def passed(  # Tests replace this.
    remembered: tuple[Fence, ...], fence: Sequence[Any]
) -> tuple[Fence, ...] | TooLow | TooMany:
    """Return the fences of a document after a write with this fence, or its refusal.

    fence: (scope, token), () for none. An equal token passes, because it belongs to the same
    holder.
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
