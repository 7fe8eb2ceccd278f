"""Requests to a group: one HTTP session, a list of nodes, and the rules for retries."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Any, NamedTuple, Self
from urllib.parse import unquote

import aiohttp
import orjson

from docstore.client.errors import (
    BadAddress,
    BadToken,
    ClientError,
    Conflict,
    PreconditionFailed,
    RequestFailed,
    Unanswered,
    Undecided,
    Unreachable,
    failed_with,
)
from docstore.model.address import without_user
from docstore.model.recognising import BETWEEN, MANAGEMENT, is_a_nodes, is_named, is_strange, told
from docstore.model.tokens import Token, with_token

ATTEMPTS = 8
PAUSE_S = 0.1
CONNECT_S = 3.0
"""Seconds to wait for a connection; nothing was sent yet, so the next node is tried."""
ANSWER_S = 12.0
"""Seconds to wait for an answer to a read; a healthy node answers within ten."""
EXAMPLE = "http://127.0.0.1:8001"
METRICS = "/metrics"
"""Path of the only page that is not JSON but text."""
READS = ("GET", "HEAD")
EVENTS = "text/event-stream"
KEY = "Idempotency-Key"
"""Header by which nodes recognise the repetition of an update, for ten minutes."""
CLOSING = "Cannot write to closing transport"
JSON = {"Content-Type": "application/json"}
_NO_SSL = re.compile(r" ssl:(default|<[^>]*>)")
"""Part of aiohttp's message that names TLS even for connections without TLS."""
Answered = tuple[int, Mapping[str, str], bytes]
"""Status, headers and body."""


class Asked(NamedTuple):
    """A request, without the node that it goes to."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] | None = None


class Requests:
    """HTTP session with the nodes of a group."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        timeout_s: float = 30.0,
        token: Token = "",
        ssl: SSLContext | None = None,
    ) -> None:
        """timeout_s: deadline of a request with its retries.

        token: sent with each request; a function may return a new one in time. ssl: trusted CAs for
        https, such as `ssl.create_default_context(cafile="ca.pem")`; None for those of the system.
        Raises BadAddress without a URL, or for a URL with a password.
        """
        if not urls:
            raise BadAddress(f"give at least one URL of a node, such as {EXAMPLE}")
        try:
            self.urls = [without_user(url).rstrip("/") for url in urls]
        except ValueError as error:
            raise BadAddress(str(error)) from None
        self._timeout_s = timeout_s
        self._token = token
        self._ssl = ssl
        self._exchanges = _Exchanges(token)
        self._first = 0

    def to(self, urls: Sequence[str], *, timeout_s: float = 30.0) -> Self:
        """Return a client of other nodes with the same token and trusted CAs."""
        return type(self)(urls, timeout_s=timeout_s, token=self._token, ssl=self._ssl)

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._ssl or True)
        self._exchanges.session = session(connector)
        return self

    async def __aexit__(self, *raised: object) -> None:
        assert self._exchanges.session is not None
        await self._exchanges.session.close()

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        only_reads: bool = False,
        wait_s: float = 0.0,
        timeout_s: float | None = None,
    ) -> Answered:
        """Return status, headers and body.

        A read without an answer is sent again, an update only if it has an `Idempotency-Key`.

        only_reads: whether a POST may be sent twice. wait_s: how long a node may wait for news
        before it answers. timeout_s: deadline with all retries, None for the client's. Raises
        BadAddress, Unreachable, Unanswered, and RequestFailed for statuses from 400 on.
        """
        asked = Asked(method, path, body, headers)
        is_read = only_reads or method in READS
        is_repeatable = is_read or KEY in (headers or ())
        loop = asyncio.get_running_loop()
        whole_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = loop.time() + whole_s + wait_s
        failure: ClientError = Unreachable("no node answers")
        doubt: Unanswered | None = None
        for attempt, place, left_s in _attempts(self._first, len(self.urls), deadline):
            timeout = self._patience(left_s if is_repeatable else whole_s, wait_s, is_repeatable)
            pause_s = PAUSE_S if attempt >= len(self.urls) - 1 else 0
            try:
                answered = await self._exchanges.ask(self.urls[place], asked, timeout)
            except RequestFailed as error:
                doubt = _doubt_after(error, doubt, is_repeatable=is_repeatable)
                failure, pause_s = error, PAUSE_S * (attempt + 1)
            except (Unreachable, Unanswered) as error:
                self._avoid(place)
                if isinstance(error, Unanswered):
                    doubt = error
                    if not is_repeatable:
                        raise
                failure = Unreachable(f"no node answers: {error.why}")
            else:
                if answered[1].get("Connection") == "close":
                    self._avoid(place)  # The node is about to stop listening.
                return answered
            await asyncio.sleep(min(pause_s, max(0.0, deadline - loop.time())))
        raise failure if is_read else doubt or failure

    def _patience(self, all_s: float, wait_s: float, is_repeatable: bool) -> aiohttp.ClientTimeout:
        """Return the timeouts for one node; a repeatable request may go to the next node."""
        silence_s = ANSWER_S + wait_s if is_repeatable else None
        return aiohttp.ClientTimeout(total=all_s, connect=CONNECT_S, sock_read=silence_s)

    def _avoid(self, place: int) -> None:
        """Begin later requests at the next node, if they began at this one."""
        if self._first == place:
            self._first = (place + 1) % len(self.urls)

    async def once(
        self,
        url: str,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout_s: float,
    ) -> Answered:
        """Ask one node, once. Raises BadAddress, Unreachable, RequestFailed, Unanswered."""
        timeout = aiohttp.ClientTimeout(total=timeout_s, connect=CONNECT_S)
        return await self._exchanges.ask(url, Asked(method, path, body, headers), timeout)

    async def events(self, asked: Asked, silence_s: float) -> AsyncGenerator[bytes, None]:
        """Yield the server-sent events of one node, until its stream ends.

        silence_s: time without a byte after which the stream is broken. When it ends or breaks, the
        next one begins at another node. Raises BadAddress, Unreachable, RequestFailed.
        """
        place, received = self._first, bytearray()
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_S, sock_read=silence_s)
        try:
            async with self._exchanges.streamed(self.urls[place], asked, timeout) as chunks:
                async for chunk in chunks:
                    looked = max(0, len(received) - 1)
                    received += chunk
                    while (end := received.find(b"\n\n", looked)) >= 0:
                        yield bytes(received[:end])
                        del received[: end + 2]
                        looked = 0
        except ClientError:
            self._avoid(place)
            raise
        self._avoid(place)

    async def json(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send a request with JSON, and return the parsed answer."""
        raw = None if body is None else orjson.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        _, _, content = await self.request(method, path, raw, JSON | named)
        return orjson.loads(content) if content else None


class _Exchanges:
    """Sends single requests, and refuses answers that are not of a node."""

    def __init__(self, token: Token) -> None:
        self._token = token
        self.session: aiohttp.ClientSession | None = None
        self._nodes: set[str] = set()
        """URLs that are known to belong to nodes."""

    async def ask(self, url: str, asked: Asked, timeout: aiohttp.ClientTimeout) -> Answered:
        async with self._answer(url, asked, timeout) as answer:
            answered = answer.status, answer.headers, await answer.read()
        await self._check(url, asked, answered, timeout)
        return answered

    @asynccontextmanager
    async def streamed(
        self, url: str, asked: Asked, timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the parts of an answer as they arrive."""
        async with self._answer(url, asked, timeout) as answer:
            if answer.content_type != EVENTS:
                answered = answer.status, answer.headers, await answer.read()
                await self._check(url, asked, answered, timeout)
                raise BadAddress(f"the server at {url} pushes no events; give the URL of a node")
            yield answer.content.iter_any()

    async def _check(
        self, url: str, asked: Asked, answered: Answered, timeout: aiohttp.ClientTimeout
    ) -> None:
        """Raise BadAddress unless a node answered, RequestFailed if it refused."""
        status, said, content = answered
        if not is_named(said) and status not in BETWEEN:
            page = asked.path.partition("?")[0]
            met = f"it answers {asked.method} {page} with {told(status, said)}"
            is_node = await self._is_node(url, _lost(asked.method), timeout)
            if not is_node or is_strange(status, said, is_text=asked.path == METRICS):
                raise BadAddress(
                    f"the server at {url} is not a docstore node: {met}; give the URL of a node"
                )
        if status >= 400:
            raise failed_with(status, _problem(content, is_read=asked.method in READS))

    @asynccontextmanager
    async def _answer(
        self, url: str, asked: Asked, timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the answer of a server, whatever its status, to be read within the block."""
        _check_link(asked.path)
        if self.session is None or self.session.closed:
            raise RuntimeError("this client is not open: use it within `async with Client(...)`")
        try:
            headers = with_token(asked.headers, self._token)
        except ValueError as error:
            raise BadToken(str(error)) from None
        try:
            async with self.session.request(
                asked.method, url + asked.path, data=asked.body, headers=headers, timeout=timeout,
                allow_redirects=False,
            ) as answer:  # fmt: skip
                yield answer
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise BadAddress(f"the URL of a node must be such as {EXAMPLE}; got {url!r}") from error
        except aiohttp.ClientResponseError as error:
            raise BadAddress(
                f"the server at {url} is not a docstore node: it does not speak "
                "HTTP; give the URL of a node"
            ) from error
        except aiohttp.ClientSSLError as error:
            raise Unreachable(f"{url}: {_without_tls(error)}") from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, _NotSent) as error:
            raise Unreachable(_NO_SSL.sub("", str(error))) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _lost(asked.method)(f"{url}: {str(error) or 'no answer in time'}") from error

    async def _is_node(
        self, url: str, lost: type[ClientError], timeout: aiohttp.ClientTimeout
    ) -> bool:
        """Say whether the server at `url`, whose answer names no node, is a node.

        lost: error to raise if it does not answer this question.
        """
        if url not in self._nodes:
            try:
                async with self._answer(url, Asked("GET", MANAGEMENT), timeout) as answer:
                    said, page = answer.headers, await answer.read()
            except Unreachable as error:
                raise lost(error.why) from error
            if not is_named(said) and not is_a_nodes(page):
                return False
            self._nodes.add(url)
        return True


def _attempts(first: int, nodes: int, deadline: float) -> Iterator[tuple[int, int, float]]:
    """Yield the number of each attempt, the place of its URL, and the seconds left."""
    for attempt in range(max(ATTEMPTS, nodes)):
        left_s = deadline - asyncio.get_running_loop().time()
        if left_s <= 0:
            break
        yield attempt, (first + attempt) % nodes, left_s


def _doubt_after(
    error: RequestFailed, doubt: Unanswered | None, *, is_repeatable: bool
) -> Unanswered | None:
    """Return the doubt that is left when a request may be repeated; else raise.

    doubt: an earlier attempt whose outcome is unknown. A failed condition refuses that attempt as
    well, whenever it arrives. After any other refusal it may still be applied: Unanswered.
    """
    if error.status == 503:
        return doubt
    if isinstance(error, Undecided) and error.status == 504 and is_repeatable:
        return error
    if doubt is None or isinstance(error, Conflict | PreconditionFailed):
        raise error
    raise Unanswered(f"{doubt.why}; a retry was answered: {error}") from error


def session(connector: aiohttp.BaseConnector) -> aiohttp.ClientSession:
    """Return a session for requests that never sends an update twice by itself."""
    return aiohttp.ClientSession(connector=connector, middlewares=(_sent_once,))


class _Broken(aiohttp.ClientError):
    """The connection ended before the answer arrived."""


class _NotSent(aiohttp.ClientError):
    """The connection ended before the whole request was written, so no node applies it."""


async def _sent_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Keep aiohttp from repeating a PUT or DELETE by itself when a connection breaks.

    If the first attempt had taken effect, the second would be rejected (412, 404), and the caller
    would think that the update failed.
    """
    if request.method in READS:
        return await handler(request)
    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        raise
    except (aiohttp.ClientConnectionError, ConnectionResetError) as error:
        was_closing = any(CLOSING in str(each) for each in (error, error.__cause__))
        raise (_NotSent if was_closing else _Broken)(str(error)) from error


def _lost(method: str) -> type[Unreachable] | type[Unanswered]:
    """Return the error for a request whose answer is lost."""
    return Unreachable if method in READS else Unanswered


def _without_tls(error: aiohttp.ClientSSLError) -> str:
    """Return why TLS with a node failed, and what to do about it."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = getattr(error.certificate_error, "verify_message", error.certificate_error)
        return f"its certificate is not believed: {why}; name its CA (--cacert, or ssl=)"
    reason = str(getattr(error.os_error, "reason", error.os_error)).lower().replace("_", " ")
    return f"no TLS with it: {reason}"


def _check_link(path: str) -> None:
    """Raise BadAddress for a link without a leading slash (`1/notes`) or with dot segments."""
    link = path.partition("?")[0]
    if not link.startswith("/"):
        raise BadAddress(f"a link must begin with /; got {link!r}")
    if any(unquote(segment) in (".", "..") for segment in link.split("/")):
        raise BadAddress(f"a link must not contain the segments . or ..; got {link!r}")


def _problem(content: bytes, *, is_read: bool) -> dict[str, Any]:
    """Return the problem in an error's body; that of a read has the outcome `not_applied`."""
    outcome = {"outcome": "not_applied"} if is_read else {}
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        value = {"detail": " ".join(content[:200].decode("utf-8", "replace").split())}
    return outcome | (value if isinstance(value, dict) else {})
