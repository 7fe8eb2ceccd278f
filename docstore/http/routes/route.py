"""The form of an entry of the route table: a path, its permissions, and its operations."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from aiohttp import web

from docstore.access.grants import AccessLevel
from docstore.http.reply import Reply
from docstore.http.representation import JSON_TYPE


class RouteKind(Enum):
    """Permissions other than a level at the request's own path.

    OPEN needs no token. ANYBODY needs any token. INSIDE: the handler checks the links in the query,
    the body or the lines. DECLARED: a level at the path of the declared factory.
    """

    OPEN = auto()
    ANYBODY = auto()
    INSIDE = auto()
    DECLARED = auto()


OPEN, ANYBODY, INSIDE, DECLARED = RouteKind
READ, WRITE, ADMIN = AccessLevel


@dataclass(frozen=True, slots=True)
class Permissions:
    """Permissions at a path and below it.

    reads: for GET, HEAD and OPTIONS. changes: for all other methods, except those of `posts` and
    `makes`.
    """

    reads: AccessLevel | RouteKind
    changes: AccessLevel | RouteKind = ADMIN
    posts: AccessLevel | None = None
    """The level for POST below the path."""
    makes: RouteKind | None = None
    """The permission for POST at the path itself."""
    at: str = ""
    """Path at which the level is needed; "" for the path of the request."""


Handler = Callable[..., Awaitable[Reply | web.StreamResponse]]
"""A method of a class of pages, unbound: called with (pages, request, path, body)."""


@dataclass(frozen=True, slots=True)
class Body:
    """The form of a body: the name of its schema (`openapi/schemas/`), and its media type.

    In a media type of lines, events or objects in sequence, the schema is that of each.
    """

    schema: str
    media: str = JSON_TYPE


Bodies = str | Sequence[Body]
"""The forms in which a body may be: the schema of a JSON body, "" for none, or several forms."""


def forms(bodies: Bodies) -> Sequence[Body]:
    """Return the forms of a body, none if there is no body."""
    if isinstance(bodies, str):
        return [Body(bodies)] if bodies else []
    return bodies


@dataclass(frozen=True, slots=True)
class Op:
    """The operation of a method at a path."""

    does: str
    answers: Mapping[int, Bodies]
    """Status -> body. Other errors are a Problem."""
    takes: Bodies = ""
    """The body of a request."""
    handler: Handler | None = None
    """The handler; None where documents of any factory are served."""
    query: Sequence[str] = ()
    headers: Sequence[str] = ()
    tells: str = ""
    """Further description, in Markdown."""
    has_head: bool = True
    """Whether the path answers HEAD as this GET."""
    checks_query: bool = True
    """Whether a parameter outside of `query` is refused before the handler is called."""
    receives: bool = True
    """Whether the handler gets the whole body; otherwise it reads the body itself."""
    negotiates: bool = True
    """Whether `Accept` chooses the media type of an answer in JSON; otherwise JSON is sent."""
    audited: bool | frozenset[str] = False
    """Whether the operation is written to the audit log although it does not need `admin`; or the
    kinds of its body for which it is."""
    is_in_json: bool = field(init=False)
    """Whether a success is answered in JSON, or in another media type that `Accept` chooses."""

    def __post_init__(self) -> None:
        """Find out whether a success is answered in JSON."""
        bodies = [
            form for status, body in self.answers.items() if status < 300 for form in forms(body)
        ]
        is_in_json = self.negotiates and any(form.media == JSON_TYPE for form in bodies)
        object.__setattr__(self, "is_in_json", is_in_json)

    @property
    def parameters(self) -> Sequence[str]:
        """Return the names of the parameters in the URL."""
        return [each.partition("@")[0] for each in self.query]


Ops = Mapping[str, Op]
"""Method -> its operation."""


def op_for(ops: Ops, method: str) -> Op | None:
    """Return the operation of a method, for HEAD that of GET; None if there is none."""
    op = ops.get(method)
    if op is None and method == "HEAD" and "GET" in ops and ops["GET"].has_head:
        return ops["GET"]
    return op


def allow_of(ops: Ops) -> str:
    """Return the methods of operations, in the form of the header `Allow`."""
    has_head = "GET" in ops and ops["GET"].has_head
    return ", ".join(sorted([*ops, "OPTIONS", *(["HEAD"] if has_head else [])]))


@dataclass(frozen=True, slots=True)
class Route:
    """A path with its permissions and its operations.

    pages: the class of the handlers; None where documents of any factory are served. permissions:
    None for those of the nearest path above.
    """

    path: str
    ops: Ops
    pages: type[Any] | None = None
    permissions: Permissions | None = None
    is_literal: bool = False
    """Whether a request must spell the path exactly, without percent-encoding."""
    schema: str = ""
    """Name of the schema that authors write, where the path is a factory; "" for its own."""


@dataclass(frozen=True, slots=True)
class Utility:
    """Operations at a fixed name below each factory, and below each document; {} if none."""

    pages: type[Any]
    of_factory: Ops
    of_document: Ops


@dataclass(frozen=True, slots=True)
class About:
    """Related routes. tag: their name in the OpenAPI description."""

    tag: str
    tells: str
    routes: Sequence[Route]
