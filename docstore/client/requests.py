"""Requests to a group: one HTTP session, a list of nodes, and rules for when to ask again."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from ssl import SSLContext
from typing import Any, NamedTuple, Self
from urllib.parse import unquote

import aiohttp
import orjson

from docstore.client.errors import (
    BadAddress,
    BadToken,
    ClientError,
    RequestFailed,
    Unanswered,
    Unreachable,
)
from docstore.model.address import without_user
from docstore.model.recognising import BETWEEN, MANAGEMENT, is_a_nodes, is_named, is_strange, told
from docstore.model.tokens import Token, with_token

ATTEMPTS = 8
PAUSE_S = 0.1
CONNECT_S = 3.0
"""Seconds to wait for a connection. Nothing was sent by then, so the next node is asked."""
ANSWER_S = 12.0
"""A node answers within ten seconds, whatever happens: one that has not is not waited for."""
EXAMPLE = "http://127.0.0.1:8001"
METRICS = "/metrics"
"""The one page that is text."""
READS = ("GET", "HEAD")
CLOSING = "Cannot write to closing transport"
JSON = {"Content-Type": "application/json"}
_NO_SSL = re.compile(r" ssl:(default|<[^>]*>)")
"""Text of aiohttp for each address to which it cannot connect, also for one without TLS."""
Answered = tuple[int, Mapping[str, str], bytes]
"""Status, headers and body."""


class Asked(NamedTuple):
    """A request, without the node that it goes to."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] | None = None


class Requests:
    """One HTTP session with any of a group's nodes."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        timeout_s: float = 30.0,
        token: Token = "",
        ssl: SSLContext | None = None,
    ) -> None:
        """timeout_s: deadline of a request with its retries, and of an update.

        token: shown with each request; a function gives one that holds, in time.
        ssl: whom to believe over https, such as `ssl.create_default_context(cafile="ca.pem")`;
        None: as the system does.
        Raises BadAddress without a URL, and for one with a password in it.
        """
        if not urls:
            raise BadAddress("no URL of a node is given")
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
        """Return a client of other nodes that believes whom this one does, and shows the same."""
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
    ) -> Answered:
        """Return status, headers and body. only_reads: a POST that may be sent twice.

        wait_s: how long a node may wait for news before it answers.
        Raises BadAddress, Unreachable, RequestFailed from 400 on, Unanswered. A read whose answer
        is lost is sent again; an update is not.
        """
        asked = Asked(method, path, body, headers)
        is_read = only_reads or method in READS
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s + wait_s
        first, nodes = self._first, len(self.urls)
        failure: ClientError = Unreachable("no node answers")
        for attempt in range(max(ATTEMPTS, nodes)):
            left_s = deadline - loop.time()
            if left_s <= 0:
                break
            place = (first + attempt) % nodes
            timeout = self._patience(left_s if is_read else self._timeout_s, wait_s, is_read)
            pause_s = PAUSE_S if attempt >= nodes - 1 else 0
            try:
                answered = await self._exchanges.ask(self.urls[place], asked, timeout)
            except RequestFailed as error:
                if error.status != 503:
                    raise
                failure, pause_s = error, PAUSE_S * (attempt + 1)
            except (Unreachable, Unanswered) as error:
                self._avoid(place)
                if isinstance(error, Unanswered) and not is_read:
                    raise
                failure = Unreachable(f"no node answers: {error.why}")
            else:
                if answered[1].get("Connection") == "close":
                    self._avoid(place)  # It sends its clients away, and will stop to listen.
                return answered
            await asyncio.sleep(min(pause_s, max(0.0, deadline - loop.time())))
        raise failure

    def _patience(self, all_s: float, wait_s: float, is_read: bool) -> aiohttp.ClientTimeout:
        """Return how long one node is waited for: a read may go on at the next one."""
        silence_s = ANSWER_S + wait_s if is_read else None
        return aiohttp.ClientTimeout(total=all_s, connect=CONNECT_S, sock_read=silence_s)

    def _avoid(self, place: int) -> None:
        """Begin at another node from now on."""
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

    async def json(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Return the parsed answer of any request."""
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
        """URLs of nodes that were asked whether they are."""

    async def ask(self, url: str, asked: Asked, timeout: aiohttp.ClientTimeout) -> Answered:
        _check_link(asked.path)
        answered = await self._exchange(url, asked, timeout)
        status, said, content = answered
        if not is_named(said) and status not in BETWEEN:
            page = asked.path.partition("?")[0]
            met = f"it answers {asked.method} {page} with {told(status, said)}"
            is_node = await self._is_node(url, _lost(asked.method), timeout)
            if not is_node or is_strange(status, said, is_text=asked.path == METRICS):
                raise BadAddress(f"what answers at {url} is no node: {met}")
        if status >= 400:
            raise RequestFailed(status, _problem(content, is_read=asked.method in READS))
        return answered

    async def _exchange(self, url: str, asked: Asked, timeout: aiohttp.ClientTimeout) -> Answered:
        """Return what a server answers, whatever it is."""
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
                return answer.status, answer.headers, await answer.read()
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise BadAddress(f"{url!r} is not the URL of a node, such as {EXAMPLE}") from error
        except aiohttp.ClientResponseError as error:
            raise BadAddress(f"what answers at {url} is no node: it does not speak HTTP") from error
        except aiohttp.ClientSSLError as error:
            raise Unreachable(f"{url}: {_without_tls(error)}") from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, _NotSent) as error:
            raise Unreachable(_NO_SSL.sub("", str(error))) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _lost(asked.method)(f"{url}: {str(error) or 'no answer in time'}") from error

    async def _is_node(
        self, url: str, lost: type[ClientError], timeout: aiohttp.ClientTimeout
    ) -> bool:
        """Say whether a node is at `url` that does not name itself, or is not let.

        lost: what is raised if it does not say, of a request that it has answered.
        """
        if url not in self._nodes:
            try:
                _, said, page = await self._exchange(url, Asked("GET", MANAGEMENT), timeout)
            except Unreachable as error:
                raise lost(error.why) from error
            if not is_named(said) and not is_a_nodes(page):
                return False
            self._nodes.add(url)
        return True


def session(connector: aiohttp.BaseConnector) -> aiohttp.ClientSession:
    """Return what requests go through: an update once, if it has gone at all."""
    return aiohttp.ClientSession(connector=connector, middlewares=(_sent_once,))


class _Broken(aiohttp.ClientError):
    """A connection has ended before the answer came."""


class _NotSent(aiohttp.ClientError):
    """The connection ended before the whole request was written, so no node acts on it."""


async def _sent_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Keep aiohttp from sending PUT and DELETE again by itself when a connection breaks.

    The effect of the first would be reported as a refusal of the second: 412, 404.
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
    """Return what is raised of a request whose answer is lost."""
    return Unreachable if method in READS else Unanswered


def _without_tls(error: aiohttp.ClientSSLError) -> str:
    """Return why there is no TLS with a node, in words of what may be done about it."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = getattr(error.certificate_error, "verify_message", error.certificate_error)
        return f"its certificate is not believed: {why}; name its CA (--cacert, or ssl=)"
    reason = str(getattr(error.os_error, "reason", error.os_error)).lower().replace("_", " ")
    return f"no TLS with it: {reason}"


def _check_link(path: str) -> None:
    """Raise BadAddress before `1/notes` is taken for a part of the port, or `..` for a way up."""
    link = path.partition("?")[0]
    if not link.startswith("/"):
        raise BadAddress(f"{link!r} is not a link: links begin with /")
    if any(unquote(segment) in (".", "..") for segment in link.split("/")):
        raise BadAddress(f"{link!r} is not a link: links have no dot segments")


def _problem(content: bytes, *, is_read: bool) -> dict[str, Any]:
    """Return the error of a refusal; a refused read has changed nothing."""
    outcome = {"outcome": "not_applied"} if is_read else {}
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        value = {"detail": " ".join(content[:200].decode("utf-8", "replace").split())}
    return outcome | (value if isinstance(value, dict) else {})
