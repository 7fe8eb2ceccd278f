"""What a query of a store is answered by whose tables follow behind its journal.

By the rows that the tables lack alone, as a list; by the tables, and what they say is put together
with these rows; or by the tables, later. See `overlay.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from docstore.model.document import Row
from docstore.storage.store import Query


@dataclass(frozen=True, slots=True)
class Wait:
    """The tables answer alone, once they have followed entry `number`."""

    number: int
    hurry: bool = True
    """Somebody waits for the answer: do not let more gather first."""


@dataclass(frozen=True, slots=True)
class Ask:
    """The tables are asked these, and `Overlay.merged` makes the answer of what they say."""

    queries: tuple[Query, ...]
    rows: Sequence[Row] = ()
    """What is here beside it, in the order of the answer."""
    rewritten: int = 0
    """The last entry by then that took rows of the slot away."""
    lacked: int = 0
    """The last entry by then that the answer may need, where the tables' own page may be short."""


Plan = list[Row] | Ask | Wait
