"""Nothing is answered from memory before a majority has said, after the question, that it counts.

That is rule S3. A node may own a document no more and not know it; its table is history then. So
who asks waits for a confirmation that was begun after the question arrived, and it must be of this
node under the reign of the table: a majority has said meanwhile that nobody took over. That
something succeeds elsewhere proves nothing about our table, and neither does what was under way.

What a turn gathers is confirmed at once, by one question for all its slots (Raft's read index).
Then the table says how each document is: under one reign only rows decided here change them, and
this machine is told of each before the confirmation comes. A document that the table lacks, or has
from a listing only, is read itself, which confirms as much.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from docstore.model.operation import Answer, Operation
from docstore.sessions.core import Core, Owners
from docstore.sessions.reigning import Known, Reigning

Then = Callable[[Known | None], None]
"""Run with the document as it is decided, None if there is none."""


@dataclass(slots=True)
class Question:
    """What waits until its slot is confirmed, asked under `reign`."""

    link: str
    reign: int
    then: Then
    lost: Callable[[], None]


class Confirming:
    """Questions whose answers rest on this node's table."""

    def __init__(self, core: Core, reigning: Reigning) -> None:
        self._core = core
        self._reigning = reigning
        self._of_slots: dict[int, list[Question]] = {}
        """Those whose document the table knows for sure: the slot is to be confirmed."""
        self._of_documents: dict[str, list[Question]] = {}
        """Those whose document is to be read."""

    def confirm(self, link: str, then: Then, lost: Callable[[], None]) -> None:  # Seam.
        """Run `then` once a majority that is asked after this moment has confirmed our reign.

        lost: run instead if it is over, or cannot be confirmed: somebody else may know.
        """
        known = self._reigning.at(link)
        if known is not None and known.is_sure:
            question = Question(link, known.reign, then, lost)
            self._of_slots.setdefault(known.slot, []).append(question)
            return
        reign = self._core.view.reign_of(link)
        if reign:
            self._of_documents.setdefault(link, []).append(Question(link, reign, then, lost))
        else:
            lost()

    @property
    def has_more(self) -> bool:
        """Say whether something gathered that only the end of a turn lets out."""
        return bool(self._of_slots or self._of_documents)

    def end_turn(self) -> None:
        """Have all slots confirmed at once, and read each document that the table does not know."""
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

    def _answered(self, questions: Sequence[Question], answer: Answer) -> None:  # Seam.
        """Take what an owner says of a slot, and of its first document if that was read."""
        core, link = self._core, questions[0].link
        is_said = answer.is_success or answer.status == 404
        is_ours = is_said and answer.owner == core.me and answer.epoch == core.view.reign_of(link)
        if is_ours and answer.row is not None and answer.is_success:
            self._reigning.learn(answer.row)
        elif is_ours and answer.status == 404:
            self._reigning.missed(link)
        table = self._reigning.beside(link)
        for question in questions:
            # Our reign of now may be another one than that of the question.
            if is_ours and answer.epoch == question.reign:
                question.then(table.get(question.link))
            else:
                question.lost()
