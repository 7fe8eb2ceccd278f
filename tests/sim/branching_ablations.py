"""Removal of one rule of levels 1 and 2 at a time, from outside: the runs must notice each."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from docstore.documents.eventual.branches import Branches
from docstore.documents.eventual.documents import Documents
from docstore.documents.eventual.downstreams import Downstreams
from docstore.documents.eventual.execute import Executor
from docstore.documents.eventual.lineage import Lineage
from docstore.documents.eventual.spread import Spreader
from docstore.documents.outbox import Outbox
from docstore.model.document import Row
from docstore.storage.replication_log import SaveCursor
from docstore.wire.messages import Spread


def _same_hand(level: int, parents: Any, others: Any, disk: str, stamp: int) -> Lineage:
    """Write under one name on all branches."""
    ancestors: dict[str, int] = {}
    for parent in parents:
        for hand, at in parent.ancestors.items():
            ancestors[hand] = max(at, ancestors.get(hand, at))
    ancestors[disk] = stamp
    return Lineage(level, disk, ancestors)


def _cursor_first(self: Spreader, sender: str, message: Spread) -> None:
    """Advance the cursor before the rows that the page lacks have arrived."""
    if message.after == self.cursors.get(message.disk, 0):
        self.core.outbox.store(SaveCursor(message.disk, self.core.configuration.id, message.n))
    _spread(self, sender, message)


def _forget_losers(self: Branches, row: Row) -> bool:
    added = _add(self, row)
    del self.heads[1:]
    return added


def _lack_nothing(self: Documents, names: Any, then: Callable[[list[str]], None]) -> None:
    then([])


def _all_peers_count(self: Downstreams, n: int, slot: int) -> int:
    return sum(each.acked >= n for each in self._progress.values()) + (self.arrived.durable >= n)


def _close_nothing(self: Executor, inflight: Any) -> None:
    """Treat every echo of a rejected update as new."""


def _none_applied(self: Executor, inflight: Any) -> bool:
    """Treat every echo of an applied update as new."""
    return False


def _at_once(self: Outbox, then: Callable[[], None]) -> None:
    then()


_add, _spread = Branches.add, Spreader.spread

RULES: dict[str, tuple[Any, str, Any]] = {
    "one-hand-on-all-branches": ("docstore.documents.eventual.execute", "begotten", _same_hand),
    "cursor-before-its-page": (Spreader, "spread", _cursor_first),
    "losers-forgotten": (Branches, "add", _forget_losers),
    "names-not-asked-for": (Documents, "lacking", _lack_nothing),
    "every-peer-counts-as-replica": (Downstreams, "copies", _all_peers_count),
    "echoes-applied": (Executor, "_close", _close_nothing),
    "applied-forgotten": (Executor, "_has_applied", _none_applied),
    "told-before-disk": (Outbox, "when_durable", _at_once),
}


@contextmanager
def without(rule: str) -> Iterator[None]:
    """Run the body without one rule."""
    where, name, instead = RULES[rule]
    target = patch(f"{where}.{name}", instead) if isinstance(where, str) else None
    with target or patch.object(where, name, instead):
        yield
