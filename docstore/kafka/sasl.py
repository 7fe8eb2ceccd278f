"""SASL/PLAIN: the user of the access file, and one of the user's tokens as the password.

    connected --SaslHandshake PLAIN--> chosen --SaslAuthenticate--> authenticated

On a node without an access file every client may do everything, and SASL is refused. The token is
checked again for each request, as HTTP does, so that a removed token is refused at once.
"""

import asyncio
from typing import TYPE_CHECKING

from docstore.errors import TooManyRequests
from docstore.http.access import Access, UserAuthority
from docstore.http.authority import EVERYBODY, Authority
from docstore.kafka.decoding import Malformed
from docstore.kafka.errors import ErrorCode
from docstore.runtime.audit import AUDIT

if TYPE_CHECKING:
    from docstore.access.rules import Principal

HANDSHAKE, AUTHENTICATE, VERSIONS = 17, 36, 18
WITHOUT_LOGIN = (HANDSHAKE, AUTHENTICATE, VERSIONS)
MECHANISM = "PLAIN"
THROTTLE_S = 0.1
"""Seconds between two attempts of a user above the rate limit. Requests wait, as Kafka's do."""


class Login:
    """The user of one connection."""

    def __init__(self, access: Access | None, address: str) -> None:
        self._access = access
        self._address = address
        self._is_chosen = False
        self._header = ""
        self._name = ""
        self.is_done = access is None
        """Whether requests are served."""
        self.has_failed = False
        """Whether the connection must be closed after the answer."""

    async def authority_for(self, key: int) -> Authority:
        """Return the authority of a request; wait while its user is above the rate limit.

        Raises Malformed if a login must come first, or is not valid any more.
        """
        if self._access is None or key in WITHOUT_LOGIN:
            return EVERYBODY
        principal = self._access.principal(self._header) if self.is_done else None
        if principal is None or principal.name != self._name:
            raise Malformed(f"key {key} needs a login that holds: SASL/PLAIN comes first")
        while not self._counted(self._access, principal):  # noqa: ASYNC110 - the rate's clock decides
            await asyncio.sleep(THROTTLE_S)
        return UserAuthority(principal, self._header, self._access)

    def _counted(self, access: Access, principal: "Principal") -> bool:
        try:
            access.count(principal)
        except TooManyRequests:
            return False
        return True

    def choose(self, mechanism: str) -> ErrorCode:
        """Take the mechanism of a handshake; return why it is refused."""
        if self._access is None or self.is_done:
            return ErrorCode.illegal_sasl_state
        if mechanism != MECHANISM:
            return ErrorCode.unsupported_sasl_mechanism
        self._is_chosen = True
        return ErrorCode.none

    def authenticate(self, said: bytes) -> ErrorCode:
        """Take the user and the token; return why they are refused."""
        if self._access is None or not self._is_chosen or self.is_done:
            self.has_failed = True
            return ErrorCode.illegal_sasl_state
        _, _, rest = said.partition(b"\0")
        user, _, token = rest.partition(b"\0")
        header = f"Bearer {token.decode('utf-8', 'surrogateescape')}"
        found = self._access.principal(header)
        name = user.decode("utf-8", "replace")
        if found is None or found.name != name:
            self.has_failed = True
            AUDIT.note_refusal("login refused", user=name[:128], address=self._address)
            return ErrorCode.sasl_authentication_failed
        self._header, self._name, self.is_done = header, name, True
        return ErrorCode.none
