"""Requests to change the group that wait for an answer.

A change is answered when its first configuration is decided; later steps follow by themselves.
"""

from docstore.documents.core import Core
from docstore.documents.effects import ChangeAnswered


class ChangeRequests:
    def __init__(self, core: Core) -> None:
        self.core = core
        self.outbox = core.outbox
        self.restarted()

    def restarted(self) -> None:
        self._awaited: dict[int, int] = {}
        """Request -> id of the configuration that answers it when decided."""

    def begun(self, request: int, number: int) -> None:
        self._awaited[request] = number

    def decided(self, number: int) -> None:
        """Answer the requests whose first configuration is decided."""
        for request in [each for each, awaited in self._awaited.items() if awaited <= number]:
            del self._awaited[request]
            self.answer(request, 202, "", f"configuration {number}")

    def leave(self) -> None:
        """Answer that this node lost the lead: a later leader may finish the changes, or not."""
        awaited, self._awaited = self._awaited, {}
        for request in awaited:
            self.answer(request, 504, "undecided", "the leader changed; look at the configuration")

    def answer(self, request: int, status: int, code: str, detail: str) -> None:
        self.outbox.emit(ChangeAnswered(request, status, code, detail))
