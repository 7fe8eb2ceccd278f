"""What an author says of one kind of document: how a request changes its state.

A service is pure: state and request in, new state out, or a refusal. It runs on the owner, one
update at a time per document. Factories declared over HTTP are services too (`services/`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

State = dict[str, Any]
"""The author's fields of a document, parsed."""

LEVEL_3 = ("PERSISTENCE", "REPLICATION", "OWNER_SELECTION", "ENFORCE_QUORUM")


class Refusal(Exception):
    """An author's handler or schema does not want this update. Nothing has changed.

    status: 400 for a wrong shape, 409 for a wrong moment, 422 otherwise.
    """

    def __init__(self, detail: str, *, status: int = 422) -> None:
        super().__init__(detail)
        self.detail = detail
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """What the factory of a service was declared with."""

    path: str
    kind: str
    options: tuple[str, ...] = LEVEL_3
    put_creates: bool = True
    strict_updates: bool = False
    idempotent_post: bool = False
    immutable: bool = False
    needs_precondition: bool = False
    schema: Mapping[str, Any] | None = field(default=None, compare=False)


class Service(Protocol):
    """One kind of document."""

    options: ServiceOptions

    def check(self, state: State) -> None:
        """Refuse a state that must not be stored; raises Refusal."""

    def patch(self, state: State, change: State) -> State | None:
        """Return the state after a PATCH with `application/json`; None for "nothing changed"."""

    @property
    def checks(self) -> bool:
        """Say whether `check` can refuse anything: if not, bytes are not parsed for it."""
