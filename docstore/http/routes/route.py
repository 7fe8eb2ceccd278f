"""The form of an entry of the route table: a path, its permissions, and what its methods do."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from aiohttp import web

from docstore.access.grants import AccessLevel
from docstore.http.reply import Reply


class RouteKind(Enum):
    """Permissions that are not a level at the request's own path.

    OPEN needs no token. ANYBODY needs any token. INSIDE: the handler checks what the query, the
    body or the lines name. DECLARED: a level at the path of the factory that is declared there.
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

    reads: of GET, HEAD and OPTIONS. changes: of all other methods, but for those named here.
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
"""A method of a class of pages, not bound: (pages, request, path, body)."""


@dataclass(frozen=True, slots=True)
class Op:
    """The operation of a method at a path."""

    does: str
    answers: Mapping[int, str]
    """Status -> schema of the body, "" for none, or a media type. Errors are a Problem."""
    takes: str | Sequence[str] = ""
    """Schema of the body, "" for none; or media types of bodies that no schema describes."""
    handler: Handler | None = None
    """None where documents of any factory are served."""
    query: Sequence[str] = ()
    headers: Sequence[str] = ()
    tells: str = ""
    """More than one line can say, in Markdown."""
    has_head: bool = True
    """Whether HEAD is answered as this GET."""
    checks_query: bool = True
    """Whether parameters that `query` does not have are refused before the handler is called."""
    receives: bool = True
    """Whether the handler is called with the whole body; otherwise it reads the body itself."""

    @property
    def parameters(self) -> Sequence[str]:
        """The names of the parameters in a URL."""
        return [each.partition("@")[0] for each in self.query]


Ops = Mapping[str, Op]
"""Method -> what it does."""


def op_for(ops: Ops, method: str) -> Op | None:
    """Return the operation of a method, that of GET for HEAD; None for a method that has none."""
    op = ops.get(method)
    if op is None and method == "HEAD" and "GET" in ops and ops["GET"].has_head:
        return ops["GET"]
    return op


def allow_of(ops: Ops) -> str:
    """Return the methods that `Allow` names."""
    has_head = "GET" in ops and ops["GET"].has_head
    return ", ".join(sorted([*ops, "OPTIONS", *(["HEAD"] if has_head else [])]))


@dataclass(frozen=True, slots=True)
class Route:
    """A path with its permissions and its operations.

    pages: the class that the handlers are methods of; None where documents of any factory are
    served. permissions: None for those of the nearest path above.
    """

    path: str
    ops: Ops
    pages: type[Any] | None = None
    permissions: Permissions | None = None
    is_literal: bool = False
    """Whether a request must spell the path as it is here, without percent-encoding."""


@dataclass(frozen=True, slots=True)
class Utility:
    """Operations at a fixed name below each factory, and below each document; {} for none."""

    pages: type[Any]
    of_factory: Ops
    of_document: Ops


@dataclass(frozen=True, slots=True)
class About:
    """Routes that belong together. tag: their name in the description of the interface."""

    tag: str
    tells: str
    routes: Sequence[Route]
