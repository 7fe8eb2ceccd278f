"""The read index: how far slots are decided, for reads of many documents at once (R1).

A listing, a count or a cut asks hundreds of slots for the rows decided when it began. All these
slots wait for one confirm round, as a GET does. The answer leaves out slots that this node does not
own, or whose term ends meanwhile: the caller must ask another node for them.

Source: the read index of Raft (Ongaro, 2014, section 6.4).
"""

from collections import defaultdict

from docstore.documents.core import Core
from docstore.documents.effects import ReadIndexAnswered
from docstore.documents.events import ReadIndexAsked
from docstore.documents.log import SlotLog
from docstore.documents.term import Phase
from docstore.documents.write_path.confirm import Confirmer, IndexRead, Voting
from docstore.documents.write_path.past_reads import is_past
from docstore.model.document import Ballot


class ReadIndex:
    def __init__(self, core: Core, confirmer: Confirmer) -> None:
        self.core = core
        self.outbox = core.outbox
        self.confirmer = confirmer

    def asked(self, event: ReadIndexAsked) -> None:
        """Add the slots that this node owns to the next confirm round, together."""
        ours: dict[Voting, list[tuple[SlotLog, Ballot]]] = defaultdict(list)
        logs, at_us = self.core.logs, event.at_us
        for slot in event.slots:
            log = logs.get(slot)
            if log is None or log.term is None or log.term.phase is not Phase.OPEN:
                continue
            if not at_us or is_past(at_us, log, self.core):
                ours[log.voting].append((log, log.term.ballot))

        def answer(found: dict[int, tuple[int, int]]) -> None:
            self.outbox.emit(ReadIndexAnswered(event.request, found))

        if ours:
            self.confirmer.read(IndexRead(event.deadline, ours, answer, at_us=event.at_us))
        else:
            answer({})
