"""The form of an entry of the route table: a path, its permissions, and what its methods do."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from typing import Any

from aiohttp import web

from docstore.access.grants import Level
from docstore.http.reply import Reply


class Kind(Enum):
    """Permissions that are not a level at the request's own path.

    OPEN needs no token. ANYBODY needs any token. INSIDE: the handler checks what the query, the
    body or the lines name. DECLARED: a level at the path of the factory that is declared there.
    """

    OPEN = auto()
    ANYBODY = auto()
    INSIDE = auto()
    DECLARED = auto()


OPEN, ANYBODY, INSIDE, DECLARED = Kind
READ, WRITE, ADMIN = Level


@dataclass(frozen=True, slots=True)
class Line:
    """reads: GET, HEAD and OPTIONS; changes: all other methods but those that have a need below."""

    reads: Level | Kind
    changes: Level | Kind = ADMIN
    posts: Level | None = None
    """POST below the path."""
    makes: Kind | None = None
    """POST at the very path."""
    at: str = ""
    """Where the level is needed, if not at the path of the request."""


Handler = Callable[..., Awaitable[Reply | web.StreamResponse]]
"""A method of a class of pages, not bound: (pages, request, path, body)."""


@dataclass(frozen=True, slots=True)
class Op:
    """What a method does at a path."""

    does: str
    answers: Mapping[int, str]
    """Status -> schema of the body, "" for none, or a media type. What goes wrong is a Problem."""
    takes: str | Sequence[str] = ""
    """Schema of the body, "" for none; or media types of bodies that no schema describes."""
    handler: Handler | None = None
    """None where documents of any factory are served."""
    query: Sequence[str] = ()
    headers: Sequence[str] = ()
    tells: str = ""
    """More than one line can say, in Markdown."""
    has_head: bool = True
    """Of a GET: whether HEAD is answered too."""
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


@dataclass(frozen=True)
class Route:
    """A path, what is needed at it and below it, and what may be done there.

    pages: the class that the handlers are methods of; None where documents of any factory are
    served. needs: None for the needs of the nearest path above.
    """

    path: str
    ops: Ops
    pages: type[Any] | None = None
    needs: Line | None = None
    is_literal: bool = False
    """Whether a request must spell the path as it is here, without percent-encoding."""

    @cached_property
    def allow(self) -> str:
        """The methods that `Allow` names."""
        return allow_of(self.ops)


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
