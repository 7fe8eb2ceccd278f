"""One call of somebody else's server: where it may go, for how long, and how much it may answer.

The socket is made here, for an address that the name has led to in that very moment: it is the one
that is looked at and the one that is connected to, so that a name which leads elsewhere the next
time gains nothing. No redirect is followed, no proxy asked, no cookie kept, nothing unpacked; the
certificate has to be that of the URL's host.
"""

import secrets
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any

import aiohttp
import orjson
from aiohttp.abc import AbstractResolver
from yarl import URL

from docstore import SERVER
from docstore.errors import DocstoreError
from docstore.subscriptions.events import Called
from docstore.subscriptions.sealing import Seal, seal_in
from docstore.subscriptions.settings import CallbackSettings
from docstore.subscriptions.signing import message_id, signed
from docstore.subscriptions.targets import CallbackRefused, Targets

TIMEOUT_S = 5.0
ANSWER_BYTES_MAX = 64 << 10
CALLS_AT_ONCE = 16
"""Of a node; others wait."""
CHALLENGE_BYTES = 24
JSON = "application/json"


class NotAllowedError(OSError):
    """An address that must not be called."""


class Caller:
    """Calls the receivers of subscriptions."""

    def __init__(
        self,
        targets: Targets,
        seal: Seal,
        *,
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """seal: of the secrets of subscriptions.

        resolver: of names; None: that of the system. tls: whom to believe; None: whom that does.
        """
        self._targets = targets
        self.seal = seal
        self._resolver = resolver
        self._tls = tls
        self._opened: aiohttp.ClientSession | None = None

    async def stop(self) -> None:
        """End all calls."""
        if self._opened is not None:
            await self._opened.close()

    async def prove(self, link: str, callback: str, secret: str) -> None:
        """Have a receiver prove that it wants to be called: it is to answer with what it was sent.

        Raises CallbackRefused.
        """
        url = self._targets.url(callback)
        challenge = secrets.token_urlsafe(CHALLENGE_BYTES)
        body = orjson.dumps({"type": "challenge", "subscription": link, "challenge": challenge})
        status, answer, why = await self._post(url, body, secret)
        if not 200 <= status < 300:
            why = f"it answers {status}" if status else why
            raise CallbackRefused(f"callback: it was challenged, and {why}")
        if _challenge_in(answer) != challenge:
            raise CallbackRefused("callback: it was challenged, and does not answer with that")

    async def deliver(self, link: str, callback: str, sealed: str, body: bytes) -> Called:
        """Send a receiver something; return what it has answered. sealed: the secret of `link`."""
        try:
            url, secret = self._targets.url(callback), self.seal.open(link, sealed)
        except DocstoreError as error:
            return Called(0, str(error))
        status, _, why = await self._post(url, body, secret)
        return Called(status, why)

    async def _post(self, url: URL, body: bytes, secret: str) -> tuple[int, bytes, str]:
        """Return status and body of the answer, or 0 and why there is none.

        An answer that is too long has no body.
        """
        head = signed(secret, message_id(body), int(time.time()), body)
        try:
            async with self._session.post(
                url, data=body, headers=head, allow_redirects=False
            ) as response:
                return response.status, await _bounded(response.content), ""
        except TimeoutError:
            return 0, b"", f"has no answer within {TIMEOUT_S:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return 0, b"", _told(error)

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            connector = aiohttp.TCPConnector(
                limit=CALLS_AT_ONCE,
                resolver=self._resolver,
                use_dns_cache=False,
                ssl=self._tls or ssl.create_default_context(),
                socket_factory=self._socket,
            )
            self._opened = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                headers=_HEADERS,
                skip_auto_headers=("Accept-Encoding",),
            )
        return self._opened

    def _socket(self, found: tuple[Any, ...]) -> socket.socket:
        """Return what a connection to an address is made with. Raises NotAllowedError."""
        family, kind, protocol, _, address = found
        if not self._targets.allow(address[0]):
            raise NotAllowedError("its address is not allowed: see callback_networks")
        return socket.socket(family, kind, protocol)


def caller_of(settings: CallbackSettings) -> Caller | None:
    """Return what calls by these settings, None if nobody is called. Raises BadConfig."""
    return Caller(Targets(settings), seal_in(settings.key_file)) if settings.hosts else None


_HEADERS: Mapping[str, str] = {"Content-Type": JSON, "Accept": JSON, "User-Agent": SERVER}


async def _bounded(content: aiohttp.StreamReader) -> bytes:
    """Return a body; nothing of one that is too long."""
    body = b""
    while chunk := await content.readany():
        body += chunk
        if len(body) > ANSWER_BYTES_MAX:
            return b""
    return body


def _challenge_in(answer: bytes) -> object:
    try:
        said = orjson.loads(answer)
    except ValueError:
        return None
    return said.get("challenge") if isinstance(said, dict) else None


def _told(error: Exception) -> str:
    """Return why there is no answer, without anything of the URL's path."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, NotAllowedError):
        return str(cause)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not believed"
    return f"there is no connection ({type(error).__name__})"
