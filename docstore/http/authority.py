"""The permissions of the sender of a request: everything, unless the node has an access file.

The server notes it with each request before any handler reads that (`access.py`). The handler that
reads a query, a body or lines asks here about the links that they name.
"""

from collections.abc import Mapping, Sequence

from aiohttp import web

from docstore.access.grants import AccessLevel
from docstore.errors import DocstoreError, Forbidden, NotFound
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
        """Return path -> level of a user; None if there is none, or the caller may not see it."""
        return None

    def may(self, method: str, link: str) -> bool:
        """Return whether a link that a request names may be read (GET), or changed (PUT)."""
        return True

    def insist(self, method: str, link: str) -> None:
        """Raise Forbidden, or NotFound of what may not be read, unless `may`."""
        if not self.may(method, link):
            raise refusal(method, link)

    def insist_on_all(self, path: str) -> None:
        """Raise NotFound unless all documents at a path and below may be read. path: "" for all.

        Or BadRequest, for what is no path.
        """

    def user(self) -> str:
        """Return the user for whom work may be done later; "" on a node without an access file.

        Raises Forbidden for those who are known only for a while.
        """
        return ""

    def runs(self, user: str, path: str) -> bool:
        """Return whether the caller is this user, or an admin of the path."""
        return True

    def insist_on_line(self, method: str, link: str) -> None:
        """Raise the error that a request of its own would get, for one line of many.

        Raises Unauthenticated and TooManyRequests, besides the errors of `insist`.
        """

    def charge(self, lines: int) -> None:
        """Count lines that are carried out together, or not at all: they were let in as one.

        If one of them could be one too many, a long batch could never be carried out.
        """

    def readable_in(self, factory: str) -> Sequence[str]:
        """Return the documents of a factory that may be read, by link, though not all may be."""
        return ()

    def enter(self, method: str, path: str) -> bool:
        """Admit a request for a path; False if only paths below may be listed.

        Raises Forbidden, NotFound.
        """
        return True

    def holds(self) -> bool:
        """Return whether the authority is still that of the start of the request."""
        return True


EVERYBODY = Authority()
AUTHORITY = web.RequestKey("authority", Authority)


def authority_of(request: RequestHead) -> Authority:
    """Return what the server has noted with a request. Raises KeyError: it never goes without."""
    noted: Authority = request[AUTHORITY]
    return noted


def refusal(method: str, path: str) -> DocstoreError:
    """Return the error for what is not granted: what may not be read is not there."""
    if method in READS:
        return NotFound(f"there is nothing at {path}")
    return Forbidden(f"no grant for {method} at {path}")
