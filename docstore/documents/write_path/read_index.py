"""How far slots are decided, for reads of many documents at once: no index without a quorum (R1).

A listing, a count and a cut want to know of hundreds of slots what was decided when they were
asked for. All their slots wait for the confirm round that a GET would wait for. A slot that this
node does not own, or whose term ends meanwhile, is left out of the answer: its owner is somebody
else, and must be asked.

Source: the read index of Raft (Ongaro, 2014, section 6.4).
"""

from docstore.documents.core import Core
from docstore.documents.effects import ReadIndexAnswered
from docstore.documents.events import ReadIndexAsked
from docstore.documents.log import SlotLog
from docstore.documents.term import Phase
from docstore.documents.write_path.confirm import Confirmer, IndexRead, Voting
from docstore.documents.write_path.past_reads import is_past
from docstore.model.document import Ballot


class ReadIndex:
    """The owner's side."""

    def __init__(self, core: Core, confirmer: Confirmer) -> None:
        self.core = core
        self.outbox = core.outbox
        self.confirmer = confirmer

    def asked(self, event: ReadIndexAsked) -> None:
        """Let the slots that are ours wait for the next confirm round, together."""
        ours: dict[Voting, list[tuple[SlotLog, Ballot]]] = {}
        for slot in event.slots:
            log = self.core.logs.get(slot)
            if log is None or log.term is None or log.term.phase is not Phase.OPEN:
                continue
            if is_past(event.at_us, log, self.core):
                ours.setdefault(log.voting, []).append((log, log.term.ballot))

        def answer(found: dict[int, tuple[int, int]]) -> None:
            self.outbox.emit(ReadIndexAnswered(event.request, found))

        if ours:
            self.confirmer.read(IndexRead(event.deadline, ours, answer, at_us=event.at_us))
        else:
            answer({})
