"""Who is refused in a handshake is told why.

OpenSSL leaves an alert for the peer in its buffer when it refuses one. asyncio and uvloop hang up
at once and throw it away, and all that the peer sees is a connection that ends. So they are told of
the failure as of a want of bytes, for which they write what is in the buffer; when something comes
then, or the peer hangs up as it should, it is over.
"""

import ssl
from contextvars import ContextVar

FAILURES: ContextVar[list[ssl.SSLError] | None] = ContextVar("FAILURES", default=None)
"""Takes why the handshake fails that is begun in this context."""


class WithAlert(ssl.SSLObject):
    """A connection whose alert is sent."""

    _failures: list[ssl.SSLError] | None = None

    def do_handshake(self) -> None:
        """Go on with the handshake. Raises SSLError: the second time that it cannot go on."""
        if self._failures is None:
            found = FAILURES.get()  # The calls to come are made elsewhere.
            self._failures = [] if found is None else found
        if self._failures:
            raise self._failures[0]
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self._failures.append(error)
            raise ssl.SSLWantReadError from error
