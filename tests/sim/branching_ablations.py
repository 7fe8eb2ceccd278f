"""Rules of levels 1 and 2 taken away one at a time, from outside: the runs must notice each."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from docstore.converge.branches import Branches
from docstore.converge.documents import Documents
from docstore.converge.execute import Executor
from docstore.converge.lineage import Lineage
from docstore.converge.spread import Spreader
from docstore.model.document import Row
from docstore.protocol.messages import Spread
from docstore.protocol.outbox import Outbox
from docstore.storage.arrivals import SaveCursor


def _same_hand(level: int, parents: Any, others: Any, disk: str, stamp: int) -> Lineage:
    """Write under one name on all branches."""
    ancestors: dict[str, int] = {}
    for parent in parents:
        for hand, at in parent.ancestors.items():
            ancestors[hand] = max(at, ancestors.get(hand, at))
    ancestors[disk] = stamp
    return Lineage(level, disk, ancestors)


def _cursor_first(self: Spreader, sender: str, message: Spread) -> None:
    """Move the cursor on before what the page lacks has come."""
    if message.after == self.cursors.get(message.disk, 0):
        self.core.outbox.store(SaveCursor(message.disk, self.core.configuration.id, message.n))
    _spread(self, sender, message)


def _forget_losers(self: Branches, row: Row) -> bool:
    added = _add(self, row)
    del self.heads[1:]
    return added


def _lack_nothing(self: Documents, names: Any, then: Callable[[list[str]], None]) -> None:
    then([])


def _all_peers_count(self: Spreader, n: int, slot: int) -> int:
    return sum(each.acked >= n for each in self.downstreams.values()) + (self.arrived.durable >= n)


def _close_nothing(self: Executor, inflight: Any) -> None:
    """Take every echo of what was refused for something new."""


def _none_applied(self: Executor, inflight: Any) -> bool:
    """Take every echo of what was applied for something new."""
    return False


def _at_once(self: Outbox, then: Callable[[], None]) -> None:
    then()


_add, _spread = Branches.add, Spreader.spread

RULES: dict[str, tuple[Any, str, Any]] = {
    "one-hand-on-all-branches": ("docstore.converge.execute", "begotten", _same_hand),
    "cursor-before-its-page": (Spreader, "spread", _cursor_first),
    "losers-forgotten": (Branches, "add", _forget_losers),
    "names-not-asked-for": (Documents, "lacking", _lack_nothing),
    "everybody-counts-as-replica": (Spreader, "copies", _all_peers_count),
    "echoes-applied": (Executor, "_close", _close_nothing),
    "applied-forgotten": (Executor, "_has_applied", _none_applied),
    "told-before-disk": (Outbox, "when_durable", _at_once),
}


@contextmanager
def without(rule: str) -> Iterator[None]:
    """Run what is inside without one rule."""
    where, name, instead = RULES[rule]
    target = patch(f"{where}.{name}", instead) if isinstance(where, str) else None
    with target or patch.object(where, name, instead):
        yield
