"""Confirmation of ownership by a majority, before this node answers from memory (rule S3).

A node may have lost the ownership of a slot without knowing it, and then has a stale table. So a
question waits for a confirmation that was begun after the question arrived. The confirmation must
name this node, under the term of the table: then no other node had taken over until then.

The questions of one turn are confirmed by one request for all their slots (Raft's read index).
After that the table is current: under one term, only rows decided here change documents, and this
machine learns each row before the confirmation arrives. A document that the table lacks, or has
only from a listing, is read instead; the read confirms the ownership as well.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from docstore.model.operation import Answer, Operation
from docstore.sessions.core import Core, Owners
from docstore.sessions.owned import Known, OwnedDocuments

Then = Callable[[Known | None], None]
"""Function that is called with the decided document, or with None if there is none."""


@dataclass(slots=True)
class Question:
    """A question asked under the term `epoch`, which waits until its slot is confirmed."""

    link: str
    epoch: int
    then: Then
    lost: Callable[[], None]


class Confirming:
    """Confirms that this node still owns a slot, before it answers from memory."""

    def __init__(self, core: Core, owned: OwnedDocuments) -> None:
        self._core = core
        self._owned = owned
        self._of_slots: dict[int, list[Question]] = {}
        """Slot -> questions about decided rows of the table; the slot is to be confirmed."""
        self._of_documents: dict[str, list[Question]] = {}
        """Link -> questions about documents that are to be read."""

    def confirm(
        self, link: str, then: Then, lost: Callable[[], None]
    ) -> None:  # Tests replace this.
        """Call `then` once a majority that is asked after this moment has confirmed our term.

        lost: called instead if the term is over or is not confirmed; another node may be the owner.
        """
        known = self._owned.at(link)
        if known is not None and known.is_sure:
            question = Question(link, known.epoch, then, lost)
            self._of_slots.setdefault(known.slot, []).append(question)
            return
        epoch = self._core.view.own_epoch(link)
        if epoch:
            self._of_documents.setdefault(link, []).append(Question(link, epoch, then, lost))
        else:
            lost()

    @property
    def has_more(self) -> bool:
        """Say whether questions wait for the end of the turn."""
        return bool(self._of_slots or self._of_documents)

    def end_turn(self) -> None:
        """Have the slots confirmed by one request, and read the documents that the table lacks."""
        slots, self._of_slots = self._of_slots, {}
        documents, self._of_documents = self._of_documents, {}
        if slots:
            self._core.counters["confirms"] += 1
            asked = {questions[0].link: questions for questions in slots.values()}
            self._core.confirm(tuple(asked), lambda owners: self._confirmed(asked, owners))
        for questions in documents.values():
            self._read(questions)

    def _read(self, questions: Sequence[Question]) -> None:
        self._core.counters["confirming_reads"] += 1
        link = questions[0].link
        self._core.ask(
            Operation(verb="GET", link=link), lambda answer: self._answered(questions, answer)
        )

    def _confirmed(self, asked: Mapping[str, Sequence[Question]], owners: Owners) -> None:
        for link, questions in asked.items():
            owner, epoch = owners.get(link, ("", 0))
            status = 200 if owner else 503
            self._answered(questions, Answer(status, owner=owner, epoch=epoch))

    def _answered(
        self, questions: Sequence[Question], answer: Answer
    ) -> None:  # Tests replace this.
        """Continue the questions of a slot with the answer to its confirmation or read."""
        core, link = self._core, questions[0].link
        is_said = answer.is_success or answer.status == 404
        is_ours = is_said and answer.owner == core.me and answer.epoch == core.view.own_epoch(link)
        if is_ours and answer.row is not None and answer.is_success:
            self._owned.learn(answer.row)
        elif is_ours and answer.status == 404:
            self._owned.missed(link)
        table = self._owned.beside(link)
        for question in questions:
            # Our present term may be later than that of the question.
            if is_ours and answer.epoch == question.epoch:
                question.then(table.get(question.link))
            else:
                question.lost()
