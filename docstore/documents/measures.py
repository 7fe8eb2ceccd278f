"""Operation statistics of the factories that ask for them.

The duration of an operation runs from the step in which it reached its executing node to the step
that answers it. It includes waiting, and excludes the way between nodes. Operations handed back
unanswered, reads of a whole history and batches of several documents do not count. The statistics
are in memory until the process ends. Factories have a time series, documents have none, and the
least recently used paths are evicted.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping

from docstore.documents.clients import Inflight
from docstore.model.operation import Answer, Operation
from docstore.model.stats import Measure

PATHS_MAX = 1024
UTILITIES = frozenset({"history", "conflicts"})
"""Selections of reads that are not a GET of a document (`model/operation.py`)."""

Verbs = dict[str, Measure]


class Measures:
    """Path -> method -> statistics. factories: the paths that are measured at present."""

    def __init__(self, factories: Collection[str]) -> None:
        self.factories = factories
        self.of_factories: OrderedDict[str, Verbs] = OrderedDict()
        self._of_documents: OrderedDict[str, Verbs] = OrderedDict()

    def arrived(self, inflight: Inflight, now: float) -> None:
        if self._is_measured(inflight.operation):
            inflight.arrived_at = now

    def answered(
        self, items: Iterable[tuple[Inflight, Answer | None, bool]], now: float, wall_us: int
    ) -> None:
        for inflight, answer, _ in items:
            if inflight.arrived_at is None or answer is None:
                continue
            took_us = round((now - inflight.arrived_at) * 1e6)
            verb, link = inflight.operation.verb, inflight.operation.link
            has_failed = answer.status >= 400
            of_factory = _found(self.of_factories, link.rpartition("/")[0])
            if verb not in of_factory:
                of_factory[verb] = Measure(minutes={})
            of_document = _found(self._of_documents, link)
            for verbs in (of_factory, of_document):
                measure = verbs.setdefault(verb, Measure())
                measure.note(took_us, wall_us, has_failed=has_failed)

    def of(self, path: str) -> Mapping[str, Measure]:
        """Return method -> statistics of a factory or a document."""
        return self.of_factories.get(path) or self._of_documents.get(path) or {}

    def _is_measured(self, operation: Operation) -> bool:
        if operation.select[0] in UTILITIES or operation.verb in ("RESOLVE", "BATCH"):
            return False
        return operation.link.rpartition("/")[0] in self.factories


def _found(paths: OrderedDict[str, Verbs], path: str) -> Verbs:
    """Return the entry of a path; evict the least recently used one if there are too many."""
    known = paths.get(path)
    if known is None:
        known = paths[path] = {}
        if len(paths) > PATHS_MAX:
            paths.popitem(last=False)
    else:
        paths.move_to_end(path)
    return known
