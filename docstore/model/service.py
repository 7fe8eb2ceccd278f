"""A service: decides how a request changes the state of one kind of document.

A service is pure: state and request in, new state out, or a refusal. It runs on the owner, one
update at a time per document. Factories declared over HTTP are services too (`services/`).
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from docstore.errors import Picklable

State = dict[str, Any]
"""The author's fields of a document, parsed."""

Method = Literal["POST", "PUT", "PATCH", "DELETE"]
METHODS: Final[tuple[Method, ...]] = ("POST", "PUT", "PATCH", "DELETE")
"""By which documents are changed."""

LEVELS = (
    ("PERSISTENCE", "REPLICATION"),
    ("PERSISTENCE", "REPLICATION", "OWNER_SELECTION"),
    ("PERSISTENCE", "REPLICATION", "OWNER_SELECTION", "ENFORCE_QUORUM"),
)
"""The options that make level 1, 2 and 3 of consistency, each more than the one before."""

LEVEL_3 = LEVELS[2]

Level = Literal[1, 2, 3]
"""How consistent documents are: see docs/guarantees.md."""

EVENTUAL: Final = 1
PRIMARY: Final = 2
LINEARIZABLE: Final = 3


def level_of(options: Collection[str]) -> Level:
    """Return the level that a set of options makes; the weakest if they make none."""
    _, primary, linearizable = (set(needed) <= set(options) for needed in LEVELS)
    if linearizable:
        return LINEARIZABLE
    return PRIMARY if primary else EVENTUAL


class Refusal(Picklable):
    """An author's handler or schema does not want this update. Nothing has changed.

    status: 400 for a wrong shape, 409 for a wrong moment, 422 otherwise. code: for programs.
    """

    def __init__(self, detail: str, *, status: int = 422, code: str = "refused-by-service") -> None:
        super().__init__(detail)
        self.detail = detail
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """Options with which the factory of a service was declared."""

    path: str
    kind: str
    options: tuple[str, ...] = LEVEL_3
    put_creates: bool = True
    strict_updates: bool = False
    idempotent_post: bool = False
    immutable: bool = False
    methods: tuple[Method, ...] = METHODS
    """By which clients change its documents. Where there is none, nodes do, or other pages."""
    author: str = ""
    """The class whose handlers make its states, as its declaration names it; "" for none."""
    revision: int = 0
    """Revision of the declarations of that class."""
    needs_precondition: bool = False
    requires_fence: bool = False
    """Every write must carry a fence."""
    numbered: bool = False
    """Handlers are shown the version that they are about to make, as `documentVersion`."""
    schema: Mapping[str, Any] | None = field(default=None, compare=False)
    described_by: Mapping[str, Any] | None = field(default=None, compare=False)
    """A schema that tells people of its documents, and refuses none, where there is no other."""
    versions: int = 0
    """How many versions of a document stay, and are shown; 0 for all that are there."""
    expires_after_s: int = 0
    """Given to documents that are put without a time of their own; 0 for none."""
    level: Level = LINEARIZABLE
    """As its options say."""


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


@dataclass(frozen=True, slots=True)
class UpdateRequest:
    """An update on its way to an author's handlers.

    method: that was sent. version: that it makes. now_us: says what time it is, in microseconds
    since 1970.
    """

    method: str
    link: str
    version: int
    media: str
    now_us: Callable[[], int]


class WithAuthor:
    """A service whose author says what becomes of updates; of all others bytes are kept or merged.

    It has `options`, `check` and `patch` as every service, which the methods not in `handled` use.
    """

    options: ServiceOptions
    checks = True
    handled: Collection[str] = ()
    """The methods that `make` is asked about."""

    @abstractmethod
    def make(self, asked: UpdateRequest, before: State | None, body: Any) -> State | None:
        """Return the next state; None for "nothing changed". Raises Refusal.

        before: None when the document comes into being; then there is a next state. body: {} of a
        DELETE, which makes a tombstone whatever is returned. Both belong to who is called.
        """

    def check(self, state: State) -> None:
        """As `Service` says."""

    @abstractmethod
    def patch(self, state: State, change: State) -> State | None:
        """As `Service` says."""


class WithoutAuthor:
    """Updates that the store makes by itself, whatever the author's class says.

    An expired document is deleted, and a document attached to a lease is deleted or detached: also
    where the factory was deleted meanwhile, or its documents do not change (rules D5, S5).
    """

    checks = False

    def __init__(self, level: Level) -> None:
        self.options = ServiceOptions(path="", kind="", level=level)

    def check(self, state: State) -> None:
        """Refuse nothing: of what the author wrote nothing is touched."""

    def patch(self, state: State, change: State) -> State | None:
        """Change nothing: what the store changes comes as a merge patch."""


WITHOUT_AUTHOR: Mapping[Level, Service] = {
    level: WithoutAuthor(level) for level in (EVENTUAL, PRIMARY, LINEARIZABLE)
}

ServiceFor = Callable[[str, int], Service | None]
"""(link, since) -> the service of a document; None while it is not known well enough.

since: the declaration is of a moment after this process had opened that many terms. A term that
was open when a declaration changed was told before the change was acknowledged; a later one must
ask.
"""
