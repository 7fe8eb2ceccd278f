"""Who has asked for a change of the group, and is owed an answer.

A change is answered when its first configuration is decided; what follows goes on by itself.
"""

from docstore.documents.core import Core
from docstore.documents.effects import ChangeAnswered


class ChangeRequests:
    """The changes that this node was asked for and has begun, as the register's leader."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.outbox = core.outbox
        self.restarted()

    def restarted(self) -> None:
        """Forget who asked."""
        self._awaited: dict[int, int] = {}
        """Request -> id of the configuration that answers it when decided."""

    def begun(self, request: int, number: int) -> None:
        """Let a request wait for the configuration of this id."""
        self._awaited[request] = number

    def decided(self, number: int) -> None:
        """Answer those whose change has begun: its configuration, of this id, is decided."""
        for request in [each for each, awaited in self._awaited.items() if awaited <= number]:
            del self._awaited[request]
            self.answer(request, 202, "", f"configuration {number}")

    def leave(self) -> None:
        """Answer that we lead no more: a later leader may finish what was begun, or may not."""
        awaited, self._awaited = self._awaited, {}
        for request in awaited:
            self.answer(request, 504, "undecided", "the leader changed; look at the configuration")

    def answer(self, request: int, status: int, code: str, detail: str) -> None:
        """Answer a request. status: as HTTP has it."""
        self.outbox.emit(ChangeAnswered(request, status, code, detail))
