"""A service: decides how a request changes the state of one kind of document.

A service is pure: state and request in, new state out, or a refusal. It runs on the owner, one
update at a time per document. Factories declared over HTTP are services too (`services/`).
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeVar

from docstore.errors import DocstoreError, Picklable
from docstore.model import json
from docstore.model.agenda import Plan, Timer

T = TypeVar("T")
State = dict[str, Any]
"""The author's fields of a document, parsed."""

Method = Literal["POST", "PUT", "PATCH", "DELETE"]
METHODS: Final[tuple[Method, ...]] = ("POST", "PUT", "PATCH", "DELETE")
"""Methods that change documents."""

LEVELS = (
    ("PERSISTENCE", "REPLICATION"),
    ("PERSISTENCE", "REPLICATION", "OWNER_SELECTION"),
    ("PERSISTENCE", "REPLICATION", "OWNER_SELECTION", "ENFORCE_QUORUM"),
)
"""Options of levels 1, 2 and 3 of consistency."""

LEVEL_3 = LEVELS[2]

Level = Literal[1, 2, 3]
"""Level of consistency: see docs/guarantees.md."""

EVENTUAL: Final = 1
PRIMARY: Final = 2
LINEARIZABLE: Final = 3


def level_of(options: Collection[str]) -> Level:
    """Return the level of a set of options; the weakest if they fit none."""
    _, primary, linearizable = (set(needed) <= set(options) for needed in LEVELS)
    if linearizable:
        return LINEARIZABLE
    return PRIMARY if primary else EVENTUAL


class Refusal(Picklable):
    """A handler or schema of the author refuses an update, and nothing changes.

    status: 400 for a wrong shape, 409 for a wrong state, 422 otherwise. code: for programs.
    """

    def __init__(self, detail: str, *, status: int = 422, code: str = "refused-by-service") -> None:
        super().__init__(detail)
        self.detail = detail
        self.status = status
        self.code = code


class Malformed(Refusal):
    """The state or the request has a wrong shape."""

    def __init__(self, detail: str, *, code: str = "refused-by-service") -> None:
        super().__init__(detail, status=400, code=code)


def understood(parse: Callable[[State], T], state: bytes) -> T | None:
    """Return the value of a document's state, None if this node does not understand it."""
    try:
        return parse(json.load(state))
    except (Refusal, DocstoreError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """Options of the declaration of a factory."""

    path: str
    kind: str
    options: tuple[str, ...] = LEVEL_3
    put_creates: bool = True
    strict_updates: bool = False
    idempotent_post: bool = False
    immutable: bool = False
    methods: tuple[Method, ...] = METHODS
    """Methods for clients; () for documents that nodes or other pages change."""
    author: str = ""
    """Name of the class whose handlers make the states, from the declaration; "" for none."""
    revision: int = 0
    """Revision of the declarations of the class `author`."""
    needs_precondition: bool = False
    requires_fence: bool = False
    """Whether every write must carry a fence."""
    numbered: bool = False
    """Whether handlers get the number of the new version as `documentVersion`."""
    schema: Mapping[str, Any] | None = field(default=None, compare=False)
    described_by: Mapping[str, Any] | None = field(default=None, compare=False)
    """Schema for documentation only, which refuses no document."""
    indexes: tuple[str, ...] = ()
    """Indexes of its documents, in the language of `query/indexes.py`."""
    versions: int = 0
    """Number of versions of a document to keep and show; 0 for all."""
    expires_after_s: int = 0
    """Default seconds until a document expires; 0 for never."""
    level: Level = LINEARIZABLE
    """Level of its options."""


class Service(Protocol):
    """One kind of document."""

    options: ServiceOptions

    def check(self, state: State) -> None:
        """Raise Refusal for a state that must not be stored."""

    def patch(self, state: State, change: State) -> State | None:
        """Return the state after a PATCH with `application/json`; None for no change."""

    @property
    def checks(self) -> bool:
        """Say whether `check` can refuse a state; if not, the owner does not parse it."""


@dataclass(frozen=True, slots=True)
class UpdateRequest:
    """An update for an author's handlers.

    version: number of the new version. now_us: returns the time, in microseconds since 1970.
    plan: agenda of the document, which handlers may change.
    """

    method: str
    link: str
    version: int
    media: str
    now_us: Callable[[], int]
    plan: Plan


class WithAuthor:
    """A service whose author's handlers make the states; other services store or merge bytes.

    Methods that are not in `handled` use `check` and `patch`, as in every service.
    """

    options: ServiceOptions
    checks = True
    handled: Collection[str] = ()
    """Methods that `make` handles."""

    @abstractmethod
    def make(self, asked: UpdateRequest, before: State | None, body: Any) -> State | None:
        """Return the next state; None for no change. Raises Refusal.

        before: None when the document is created; then the result must not be None.
        body: {} for a DELETE, which makes a tombstone whatever the result is.
        The handler may change both.
        """

    def fire(self, asked: UpdateRequest, before: State, timer: Timer) -> State | None:
        """Return the state after a timer has fired; None for no change. Raises Refusal."""
        raise Refusal(f"{self.options.path} has no handler for timers", status=409)

    def check(self, state: State) -> None:
        """Accept every state."""

    @abstractmethod
    def patch(self, state: State, change: State) -> State | None:
        """Return the state after a PATCH that `make` does not handle; None for no change."""


class WithoutAuthor:
    """Service of the store's own updates, which ignore the author's handlers.

    The store deletes an expired document, and deletes or detaches a document of a lease, even if
    its factory was deleted meanwhile, or its documents are immutable (rules D5, S5).
    """

    checks = False

    def __init__(self, level: Level) -> None:
        self.options = ServiceOptions(path="", kind="", level=level)

    def check(self, state: State) -> None:
        """Accept every state: the author's members do not change."""

    def patch(self, state: State, change: State) -> State | None:
        """Return no change: the store uses merge patches."""


WITHOUT_AUTHOR: Mapping[Level, Service] = {
    level: WithoutAuthor(level) for level in (EVENTUAL, PRIMARY, LINEARIZABLE)
}

ServiceFor = Callable[[str, int], Service | None]
"""(link, since) -> the service of a document; None while its declaration is unknown or too old.

since: the declaration must have been read after this process had opened that many terms. The owner
of a term that was open when a declaration changed got the change before its acknowledgement; the
owner of a later term must read the declaration.
"""
