"""Who sends a request, asked once for each: the door of a node that has an access file."""

import time

import structlog
from aiohttp.hdrs import AUTHORIZATION

from docstore.access.authenticator import Authenticator
from docstore.access.grants import Grants
from docstore.access.rules import Principal
from docstore.errors import Unauthenticated
from docstore.http.authority import Authority, Granted, authority_of
from docstore.http.headers import Head
from docstore.http.needs import OPEN, need_of

HEALTH = "/health/"
TELL_AGAIN_S = 60.0
NOBODY = Granted(Principal("", Grants({})))

log = structlog.get_logger("docstore.http")


class Access:
    """Says with what authority a request comes."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._refused = 0
        self._told_at = -TELL_AGAIN_S

    def authority(self, request: Head) -> Authority:
        """Return it. Raises Unauthenticated."""
        path = request.raw_path.partition("?")[0]
        if path.startswith(HEALTH) and need_of(request.method, path).what is OPEN:
            return NOBODY
        found = self._principal(request)
        if found is not None:
            return Granted(found)
        self._tell()
        raise Unauthenticated

    def has_ended(self, request: Head) -> bool:
        """Say whether a request that goes on would not be let in as it was."""
        began = authority_of(request)
        if not isinstance(began, Granted) or began is NOBODY:
            return False
        found = self._principal(request)
        return found is None or found.grants != began.principal.grants

    def _principal(self, request: Head) -> Principal | None:
        said = request.headers.getall(AUTHORIZATION, ())
        return self._authenticator.principal(said[0] if len(said) == 1 else "", time.time())

    def _tell(self) -> None:
        """Log that somebody is refused: when it begins, and then once a minute."""
        self._refused += 1
        now = time.monotonic()
        if now - self._told_at >= TELL_AGAIN_S:
            self._told_at = now
            log.warning("requests without a token that holds are refused", refused=self._refused)
