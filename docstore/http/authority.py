"""What whoever sent a request may do: everything, unless the node has an access file.

The server notes it with each request before anybody else looks at that (`access.py`). What a
request names in its query, its body or its lines is asked about here, by whoever reads it.
"""

from aiohttp import web

from docstore.access.grants import ROOT, Level
from docstore.access.rules import Principal
from docstore.errors import DocstoreError, Forbidden, NotFound
from docstore.http.headers import Head
from docstore.http.needs import ANYBODY, INSIDE, OPEN, READ, READS, Need, need_of
from docstore.model.paths import canonical_link
from docstore.services.registry import FACTORIES


class Authority:
    """That of everybody, where nobody is asked who he is."""

    def may(self, method: str, link: str) -> bool:
        """Say whether something that a request names may be read, or changed: by GET, by PUT."""
        return True

    def insist(self, method: str, link: str) -> None:
        """Raise what `refusal` is unless `may`."""
        if not self.may(method, link):
            raise refusal(method, link)

    def insist_on_all(self, path: str) -> None:
        """Raise NotFound unless all documents at a path and below may be read. path: "" for all."""

    def enter(self, method: str, path: str) -> bool:
        """Let a request for a path in; False if only what lies below may be listed.

        Raises Forbidden, NotFound.
        """
        return True


EVERYBODY = Authority()


class Granted(Authority):
    """That of somebody whom the access file knows."""

    __slots__ = ("principal",)

    def __init__(self, principal: Principal) -> None:
        self.principal = principal

    def may(self, method: str, link: str) -> bool:
        """Say whether something that a request names may be read, or changed."""
        need = need_of(method, link)
        return need.what is not INSIDE and self._has(need)

    def insist_on_all(self, path: str) -> None:
        """Raise NotFound unless all documents at a path and below may be read. Or BadRequest."""
        need = Need(READ, ROOT)
        if path not in ("", ROOT) and isinstance(need_of("GET", canonical_link(path)).what, Level):
            need = need_of("GET", path)
        if not self._has(need):
            raise refusal("GET", path or ROOT)

    def enter(self, method: str, path: str) -> bool:
        """Let a request for a path in; False if only what lies below may be listed."""
        need = need_of(method, path)
        if need.what is INSIDE or self._has(need):
            return True
        is_listed = path == FACTORIES or self.principal.grants.is_any_below(need.path)
        if method in READS and is_listed:
            return False
        raise refusal(method, path)

    def _has(self, need: Need) -> bool:
        what = need.what
        if isinstance(what, Level):
            return self.principal.grants.allow(what, need.path)
        return what in (OPEN, ANYBODY)


def refusal(method: str, path: str) -> DocstoreError:
    """Return the error for what is not granted: what may not be read is not there."""
    if method in READS:
        return NotFound(f"there is nothing at {path}")
    return Forbidden(f"no grant for {method} at {path}")


AUTHORITY = web.RequestKey("authority", Authority)


def authority_of(request: Head) -> Authority:
    """Return what the server has noted with a request. Raises KeyError: it never goes without."""
    noted: Authority = request[AUTHORITY]
    return noted
