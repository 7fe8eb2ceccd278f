"""Calls of receivers: checks their addresses, and limits the time and size of answers.

The socket is created here for a resolved address. The check and the connection use that same
address, so a name that resolves differently the next time gains nothing (DNS rebinding). Redirects,
proxies, cookies and compressed answers are ignored, and the certificate must be of the URL's host.

Any client can cause challenges, and must not delay deliveries with them: challenges and deliveries
have their own connections and threads for names.
"""

import asyncio
import secrets
import socket
import ssl
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from docstore import SERVER
from docstore.errors import DocstoreError, Unavailable
from docstore.subscriptions.events import Called
from docstore.subscriptions.settings import CallbackSettings
from docstore.subscriptions.signing import message_id, signed, unsigned
from docstore.subscriptions.targets import CallbackRefused, Targets

if TYPE_CHECKING:
    from docstore.subscriptions.sealing import SecretSeal

TIMEOUT_S = 5.0
ANSWER_BYTES_MAX = 64 << 10
CALLS_AT_ONCE = 16
"""Greatest number of concurrent deliveries of a node; further deliveries wait."""
CHALLENGES_AT_ONCE, CHALLENGES_WAITING = 4, 8
"""Greatest numbers of a node's challenges under way, and of those that wait; more are refused."""
CHALLENGE_BYTES = 24
JSON = "application/json"


class NotAllowedError(OSError):
    """The settings do not allow this address."""


class TooManyChallenges(Unavailable):
    """Too many subscriptions wait for the challenge of their receivers."""

    code = "too-many-waiting"


class LookUps(AbstractResolver):
    """Resolves names of receivers by the system, in threads of its own.

    A look-up blocks its thread for as long as a name server stays silent, and cannot be cancelled.
    So it must not use a thread that the rest of the node needs.
    """

    def __init__(self, at_once: int) -> None:
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="callback names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        ask = partial(
            socket.getaddrinfo, host, port, family=family, type=socket.SOCK_STREAM,
            flags=socket.AI_ADDRCONFIG,
        )  # fmt: skip
        found = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        return [
            ResolveResult(
                hostname=host, host=str(address[0]), port=int(address[1]), family=kind,
                proto=protocol, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in found
        ]  # fmt: skip

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class Caller:
    """Calls the receivers of subscriptions."""

    def __init__(
        self,
        targets: Targets,
        seal: "SecretSeal",
        *,
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """resolver: resolves names. tls: trusted authorities. None: those of the system."""
        self._targets = targets
        self.seal = seal
        self._resolver = resolver
        self._tls = tls
        self._opened: list[aiohttp.ClientSession | LookUps] = []
        self._challenges = asyncio.Semaphore(CHALLENGES_AT_ONCE)
        self._challenged = 0
        """Number of challenges under way or waiting."""

    async def stop(self) -> None:
        for each in self._opened:
            await each.close()

    async def prove(self, link: str, callback: str, secret: str) -> None:
        """Challenge a receiver: it must echo a random text to show that it expects calls.

        Raises CallbackRefused, TooManyChallenges.
        """
        url = self._targets.url(callback)
        if self._challenged >= CHALLENGES_AT_ONCE + CHALLENGES_WAITING:
            raise TooManyChallenges(
                "this node already challenges as many receivers as it can: retry later"
            )
        self._challenged += 1
        try:
            async with self._challenges:
                await self._challenge(link, url, secret)
        finally:
            self._challenged -= 1

    async def _challenge(self, link: str, url: URL, secret: str) -> None:
        challenge = secrets.token_urlsafe(CHALLENGE_BYTES)
        body = orjson.dumps({"type": "challenge", "subscription": link, "challenge": challenge})
        status, answer, why = await _post(self._to_challenge, url, body, secret, message_id(body))
        if not 200 <= status < 300:
            why = f"it answers {status}" if status else why
            raise CallbackRefused(f"callback: the receiver was challenged, and {why}")
        if _challenge_in(answer) != challenge:
            raise CallbackRefused(
                "callback: the receiver must answer a challenge with the text of the challenge"
            )

    async def deliver(self, link: str, callback: str, sealed: str, body: bytes) -> Called:
        """POST a body to a receiver. sealed: the encrypted secret of the subscription `link`."""
        try:
            url, secret = self._targets.url(callback), self.seal.open(link, sealed)
        except DocstoreError as error:
            return Called(0, str(error))
        status, _, why = await _post(self._to_deliver, url, body, secret, message_id(body))
        return Called(status, why)

    async def post(self, callback: str, secret: str, message: str, body: bytes) -> Called:
        """POST a message of this id to a receiver. secret: "" for no signature."""
        try:
            url = self._targets.url(callback)
        except DocstoreError as error:
            return Called(0, str(error))
        status, _, why = await _post(self._to_deliver, url, body, secret, message)
        return Called(status, why)

    @cached_property
    def _to_challenge(self) -> aiohttp.ClientSession:
        return self._session(CHALLENGES_AT_ONCE)

    @cached_property
    def _to_deliver(self) -> aiohttp.ClientSession:
        return self._session(CALLS_AT_ONCE)

    def _session(self, at_once: int) -> aiohttp.ClientSession:
        lookups = LookUps(at_once)
        connector = aiohttp.TCPConnector(
            limit=at_once,
            resolver=self._resolver or lookups,
            use_dns_cache=False,
            ssl=self._tls or ssl.create_default_context(),
            socket_factory=self._socket,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            headers=_HEADERS,
            skip_auto_headers=("Accept-Encoding",),
        )
        self._opened += [session, lookups]
        return session

    def _socket(self, found: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, address = found
        if not self._targets.allow(address[0]):
            raise NotAllowedError("the address of the host is not allowed: see callback_networks")
        return socket.socket(family, kind, protocol)


def caller_of(settings: CallbackSettings) -> Caller | None:
    """Return the caller for these settings, None if they allow no host. Raises BadConfig."""
    if not settings.hosts:
        return None
    from docstore.subscriptions.sealing import seal_in  # noqa: PLC0415 - It loads `cryptography`.

    return Caller(Targets(settings), seal_in(settings.key_file))


_HEADERS: Mapping[str, str] = {"Content-Type": JSON, "Accept": JSON, "User-Agent": SERVER}


async def _post(
    session: aiohttp.ClientSession, url: URL, body: bytes, secret: str, message: str
) -> tuple[int, bytes, str]:
    """Return (status, body, "") of an answer, or (0, b"", reason) without one."""
    now_s = int(time.time())
    head = signed(secret, message, now_s, body) if secret else unsigned(message, now_s)
    try:
        async with session.post(url, data=body, headers=head, allow_redirects=False) as response:
            return response.status, await _bounded(response.content), ""
    except TimeoutError:
        return 0, b"", f"has no answer within {TIMEOUT_S:g} s"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return 0, b"", _told(error)


async def _bounded(content: aiohttp.StreamReader) -> bytes:
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
    """Return the reason of a missing answer, without any part of the URL's path."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, NotAllowedError):
        return str(cause)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not trusted"
    return f"there is no connection ({type(error).__name__})"
