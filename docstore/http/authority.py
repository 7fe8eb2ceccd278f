"""The permissions of the sender of a request: everything, unless the node has an access file.

The server stores the authority with each request before it calls a handler (`access.py`). A handler
that reads links from a query, a body or lines checks these links here.
"""

from collections.abc import Mapping, Sequence

from aiohttp import web

from docstore.access.grants import AccessLevel
from docstore.errors import DocstoreError, Forbidden, Hidden
from docstore.http.headers import RequestHead
from docstore.http.methods import READS


class Authority:
    """The authority of all callers on a node without an access file."""

    @property
    def principal(self) -> str:
        """The name that versions of documents record; "" where they must not record one."""
        return ""

    @property
    def name(self) -> str:
        """The name of the caller; "" on a node without an access file."""
        return ""

    @property
    def reads_all(self) -> bool:
        """Whether everything may be read."""
        return True

    def grants_of(self, name: str) -> Mapping[str, AccessLevel] | None:
        """Return path -> level of a user; None if the caller may not see it, or it is unknown."""
        return None

    def may(self, method: str, link: str) -> bool:
        """Return whether a link that a request names may be read (GET), or changed (PUT)."""
        return True

    def insist(self, method: str, link: str) -> None:
        """Raise Forbidden, or NotFound for a read, unless `may` allows it."""
        if not self.may(method, link):
            raise refusal(method, link)

    def insist_on_all(self, path: str) -> None:
        """Raise NotFound unless the caller may read all documents at a path and below it.

        path: "" for all documents. Raises BadRequest if it is not a path.
        """

    def user(self) -> str:
        """Return the user for whom work may be done later; "" on a node without an access file.

        Raises Forbidden for the bearer of a signed token, which is valid for a short time only.
        """
        return ""

    def runs(self, user: str, path: str) -> bool:
        return True

    def insist_on_line(self, method: str, link: str) -> None:
        """Check one line of a bulk request as if it were a request of its own.

        Raises Unauthenticated and TooManyRequests, besides the errors of `insist`.
        """

    def charge(self, lines: int) -> None:
        """Count the lines of an atomic batch without refusing them.

        They were admitted as one request: if each line could be refused by the rate limit, a long
        batch could never be carried out.
        """

    def readable_in(self, factory: str) -> Sequence[str]:
        """Return the links of a factory's documents that grants of the caller name one by one."""
        return ()

    def enter(self, method: str, path: str) -> bool:
        """Admit a request for a path; False if only paths below may be listed.

        Raises Forbidden, NotFound.
        """
        return True

    def usable(self, methods: str) -> str:
        """Return those of a resource's methods that the caller may use at the path of `enter`."""
        return methods

    def holds(self) -> bool:
        """Return whether the authority of the request's start is still valid."""
        return True


EVERYBODY = Authority()
AUTHORITY = web.RequestKey("authority", Authority)


def authority_of(request: RequestHead) -> Authority:
    """Return the authority that the server stored with a request. Raises KeyError without one."""
    noted: Authority = request[AUTHORITY]
    return noted


def refusal(method: str, path: str) -> DocstoreError:
    """Return the error for a request without permission: Hidden for a read, else Forbidden."""
    if method in READS:
        return Hidden(f"there is nothing at {path}")
    return Forbidden(f"no grant for {method} at {path}")
