"""How far slots are decided, for reads of many documents at once: no index without a quorum (R1).

A listing, a count and a cut want to know of hundreds of slots what was decided when they were
asked for. Each slot waits for the confirm round that a GET would wait for, and all share it. Left
out of the answer is a slot that this node does not own, or whose reign ends meanwhile: its owner is
somebody else, and must be asked.

Source: the read index of Raft (Ongaro, 2014, section 6.4).
"""

from dataclasses import dataclass, field
from functools import partial

from docstore.protocol.confirm import Confirmer, Waiter
from docstore.protocol.core import Core
from docstore.protocol.effects import ReadIndexAnswered
from docstore.protocol.events import ReadIndexAsked
from docstore.protocol.log import SlotLog
from docstore.protocol.tenure import Phase, Tenure


@dataclass(slots=True)
class _Asked:
    """One question: how many of its slots are not confirmed yet, and what the others said."""

    request: int
    waiting: int
    found: dict[int, tuple[int, int]] = field(default_factory=dict)


class ReadIndex:
    """The owner's side."""

    def __init__(self, core: Core, confirmer: Confirmer) -> None:
        self.core = core
        self.confirmer = confirmer

    def asked(self, event: ReadIndexAsked) -> None:
        """Let every slot that is ours wait for the next confirm round."""
        logs = (self.core.logs.get(slot) for slot in event.slots)
        ours = [(log, log.tenure) for log in logs if log and log.tenure]
        ours = [(log, tenure) for log, tenure in ours if tenure.phase is Phase.OPEN]
        asked = _Asked(event.request, len(ours))
        if not ours:
            self._answer(asked)
        for log, tenure in ours:
            then = partial(self._confirmed, asked, log, tenure)
            lost = partial(self._one_less, asked)
            self.confirmer.add(Waiter(log, tenure.ballot, event.deadline, then, lost))

    def _confirmed(self, asked: _Asked, log: SlotLog, tenure: Tenure) -> None:
        asked.found[log.slot] = (tenure.ballot[0], log.decided)
        self._one_less(asked)

    def _one_less(self, asked: _Asked) -> None:
        asked.waiting -= 1
        if asked.waiting == 0:
            self._answer(asked)

    def _answer(self, asked: _Asked) -> None:
        self.core.emit(ReadIndexAnswered(asked.request, asked.found))
