"""What this node measures of the operations that it executes: of factories that ask for it only.

From the step in which an operation came to whoever executes it here to the step that answers it:
what it waited for is in it, the way between nodes is not. What is handed back unanswered does not
count, nor do looks at a document's past as a whole, and batches of several documents. It is in
memory, until this process ends; of factories with a time series, of documents without, the last so
many of each.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping

from docstore.documents.clients import Inflight
from docstore.model.operation import Answer, Operation
from docstore.model.stats import Measure

PATHS_MAX = 1024
UTILITIES = frozenset({"history", "conflicts"})
"""What reads select that are no GET of a document (`model/operation.py`)."""

Verbs = dict[str, Measure]


class Measures:
    """Path -> method -> what was measured. factories: those that are measured, as of now."""

    def __init__(self, factories: Collection[str]) -> None:
        self.factories = factories
        self.of_factories: OrderedDict[str, Verbs] = OrderedDict()
        self._of_documents: OrderedDict[str, Verbs] = OrderedDict()

    def arrived(self, inflight: Inflight, now: float) -> None:
        """Note when an operation came, if it is one to be measured."""
        if self._is_measured(inflight.operation):
            inflight.arrived_at = now

    def answered(
        self, items: Iterable[tuple[Inflight, Answer | None, bool]], now: float, wall_us: int
    ) -> None:
        """Take in those that are answered now."""
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
        """Return what was measured of a factory, or of a document: by method."""
        return self.of_factories.get(path) or self._of_documents.get(path) or {}

    def _is_measured(self, operation: Operation) -> bool:
        if operation.select[0] in UTILITIES or operation.verb in ("RESOLVE", "BATCH"):
            return False
        return operation.link.rpartition("/")[0] in self.factories


def _found(paths: OrderedDict[str, Verbs], path: str) -> Verbs:
    """Return what is known of a path; what was not used for the longest time makes room for it."""
    known = paths.get(path)
    if known is None:
        known = paths[path] = {}
        if len(paths) > PATHS_MAX:
            paths.popitem(last=False)
    else:
        paths.move_to_end(path)
    return known
