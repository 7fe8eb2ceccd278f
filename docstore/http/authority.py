"""What whoever sent a request may do: everything, unless the node has an access file.

The server notes it with each request before anybody else looks at that (`access.py`). What a
request names in its query, its body or its lines is asked about here, by whoever reads it.
"""

from collections.abc import Mapping, Sequence

from aiohttp import web

from docstore.access.grants import Level
from docstore.errors import DocstoreError, Forbidden, NotFound
from docstore.http.headers import Head
from docstore.http.methods import READS


class Authority:
    """That of everybody, where nobody is asked who he is."""

    @property
    def principal(self) -> str:
        """Who it is, as versions of documents say; "" where they are to say nothing."""
        return ""

    @property
    def name(self) -> str:
        """Who it is; "" where nobody is asked."""
        return ""

    @property
    def reads_all(self) -> bool:
        """Whether everything may be read."""
        return True

    def grants_of(self, name: str) -> Mapping[str, Level] | None:
        """Return what somebody may do, by path; None if there is no such user, or not for him."""
        return None

    def may(self, method: str, link: str) -> bool:
        """Say whether something that a request names may be read, or changed: by GET, by PUT."""
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
        """Return on whose behalf something may be done later; "" where nobody is asked.

        Raises Forbidden for those who are known only for a while.
        """
        return ""

    def runs(self, user: str, path: str) -> bool:
        """Say whether what a user has set up at a path is the asker's own, or his to run."""
        return True

    def insist_on_line(self, method: str, link: str) -> None:
        """Raise what a request of its own would be told instead of this line of many.

        Beside what `insist` raises: Unauthenticated, TooManyRequests.
        """

    def charge(self, lines: int) -> None:
        """Count lines that are carried out together, or not at all: they were let in as one.

        If one of them could be one too many, a long batch could never be carried out.
        """

    def readable_in(self, factory: str) -> Sequence[str]:
        """Return the documents of a factory that may be read, by link, though not all may be."""
        return ()

    def enter(self, method: str, path: str) -> bool:
        """Let a request for a path in; False if only what lies below may be listed.

        Raises Forbidden, NotFound.
        """
        return True

    def holds(self) -> bool:
        """Say whether it is still what the request was let in with."""
        return True


EVERYBODY = Authority()
AUTHORITY = web.RequestKey("authority", Authority)


def authority_of(request: Head) -> Authority:
    """Return what the server has noted with a request. Raises KeyError: it never goes without."""
    noted: Authority = request[AUTHORITY]
    return noted


def refusal(method: str, path: str) -> DocstoreError:
    """Return the error for what is not granted: what may not be read is not there."""
    if method in READS:
        return NotFound(f"there is nothing at {path}")
    return Forbidden(f"no grant for {method} at {path}")
