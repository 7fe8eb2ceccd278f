"""A group over HTTP, by the standard library alone: what executors need and nothing more.

Connections are kept between requests of one process, since Spark's workers live on from task to
task; nothing else is, so that what has changed is seen.
"""

import atexit
import contextlib
import http.client
import json
import os
import random
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from docstore.model.address import without_user
from docstore.model.recognising import BETWEEN, MANAGEMENT, is_a_nodes, is_named, told
from docstore.model.tokens import token_of_environment, with_token
from docstore.pipeline.errors import PipelineError

TIMEOUT_S = 30.0
RETRIES = 5
PAUSE_S = 0.2
AGAIN = frozenset({421, 425, 429, 503})
"""Statuses after which another node, or the same one later, may do better."""
STRANGE = "foreign-host"
"""The code of a node that does not answer to the name in our URL, now or later."""
_nodes: set[str] = set()
"""URLs of nodes that were asked whether they are."""
_idle: dict[tuple[int, str], list[http.client.HTTPConnection]] = {}


class GroupError(PipelineError):
    """A node refused: its status, its code and what it says."""

    def __init__(self, status: int, code: str, detail: str, url: str) -> None:
        super().__init__(f"{url}: {status} {code}: {detail}")
        self.status, self.code, self.detail, self.url = status, code, detail, url


class Incomplete(PipelineError):
    """An answer ended before its end."""


class BadUrl(PipelineError, ValueError):
    """A text that is not the URL of a node."""


class BadToken(PipelineError, ValueError):
    """The token cannot be read, or is none."""


class NoNode(PipelineError):
    """Another server answers where a node should be."""


class Unreachable(PipelineError, OSError):
    """No connection to a node, or it broke."""


class GroupClient:
    """The nodes of a group, asked in turn."""

    def __init__(
        self, urls: Sequence[str], *, timeout_s: float = TIMEOUT_S, retries: int = RETRIES
    ) -> None:
        self.urls = [url_of(url) for url in urls]
        self.timeout_s = timeout_s
        self.retries = retries

    def json(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer of the first node that can give one. Raises GroupError, OSError."""
        last: Exception = OSError("there is no node to ask")
        for attempt in range((self.retries + 1) * len(self.urls)):
            url = self.urls[attempt % len(self.urls)]
            try:
                with self.open(method, url, path, body) as answer:
                    return json.loads(answer.read())
            except GroupError as error:
                if error.status not in AGAIN or error.code == STRANGE:
                    raise
                last = error
            except (OSError, http.client.HTTPException) as error:
                last = error
            if attempt + 1 >= len(self.urls):
                pause(attempt // len(self.urls))
        raise last

    def plan(self, as_of: str = "latest", path: str = "", prefix: str = "") -> dict[str, Any]:
        """Return a cut's token, where each slot ends in it, and who holds which slots.

        as_of: latest, barrier, a time, the name of a snapshot, or a token. path: of a factory that
        has to be there. prefix: of documents, whatever is there. All of it must be readable to the
        token that is shown; "" for everything. Raises GroupError, OSError.
        """
        named = {"path": path} if path else {"prefix": prefix} if prefix else {}
        asked = urlencode({"asOf": as_of} | named)
        plan: dict[str, Any] = self.json("GET", f"/core/spark/plan?{asked}")
        return plan

    def high(self, prefix: str = "") -> dict[str, Any]:
        """Return how far each slot has come. prefix: as of `plan`. Raises GroupError, OSError."""
        asked = f"?{urlencode({'prefix': prefix})}" if prefix else ""
        page: dict[str, Any] = self.json("GET", f"/core/spark/high{asked}")
        return page

    @contextlib.contextmanager
    def open(
        self, method: str, url: str, path: str, body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[http.client.HTTPResponse]:  # fmt: skip
        """Ask one node, and give its answer, a stream with headers. Raises GroupError, Unreachable.

        body: bytes or a file as they are, anything else as JSON.
        """
        token = _token()
        connection = _connected(url, self.timeout_s)
        is_raw = isinstance(body, bytes | None) or hasattr(body, "read")
        raw = body if is_raw else json.dumps(body).encode()
        kinds = {"Content-Type": "application/json", "Docstore-Timeout-Ms": "30000"}
        kinds.update(token | dict(headers or {}))
        target = quote(path, safe="/?=&%:+.-_")
        is_free = False
        try:
            connection.request(method, target, raw, kinds)
            answer = connection.getresponse()
            is_known = is_named(answer.headers) or answer.status in BETWEEN or url in _nodes
            if not is_known:
                self._check(url, f"{method} {path.partition('?')[0]}", answer)
            if answer.status >= 400:
                raise _refusal(answer.status, answer.read(), url)
            yield answer
            has_ended = answer.isclosed() or not answer.read(1)
            is_free = has_ended and not answer.will_close
        except Unreachable:
            raise
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{url}: {_why(error)}") from None
        finally:
            if is_free:
                _idle.setdefault((os.getpid(), url), []).append(connection)
            else:
                connection.close()

    def _check(self, url: str, asked: str, met: http.client.HTTPResponse) -> None:
        """Raise NoNode unless a node is at `url`, which does not say so in its answers."""
        with contextlib.closing(_connection(url, self.timeout_s)) as connection:
            connection.request("GET", MANAGEMENT)
            answer = connection.getresponse()
            page = answer.read()
            if not is_named(answer.headers) and not is_a_nodes(page):
                met.close()  # It may own the connection by now.
                what = f"it answers {asked} with {told(met.status, met.headers)}"
                raise NoNode(f"what answers at {url} is no node: {what}")
            _nodes.add(url)


def _token() -> dict[str, str]:
    """Return the header with the token that this process has in its environment.

    No option says it: options stand in plans, and on pages. Raises BadToken.
    """
    try:
        return dict(with_token({}, token_of_environment()) or {})
    except ValueError as error:
        raise BadToken(f"docstore: {error}") from None


def _why(error: Exception) -> str:
    """Return in words why a connection is of no use."""
    if isinstance(error, http.client.IncompleteRead):
        return "the answer was cut off"
    said = str(error) or type(error).__name__
    return said.partition("] ")[2] or said


def url_of(url: str) -> str:
    """Return the URL of a node as it is used. Raises BadUrl."""
    url = url.strip().rstrip("/")
    try:
        without_user(url)
    except ValueError as error:
        raise BadUrl(str(error)) from None
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_url = is_url and url == f"{parts.scheme}://{parts.netloc}"  # A path would be ignored.
    except ValueError:
        is_url = False
    if not is_url:
        raise BadUrl(f"{url!r} is no URL of a node, which is http://HOST:PORT or https://HOST:PORT")
    return url


def _connected(url: str, timeout_s: float) -> http.client.HTTPConnection:
    """Return a connection that was used before, or a new one."""
    idle = _idle.get((os.getpid(), url), [])
    if idle:
        connection = idle.pop()
        if connection.sock is not None and not _has_ended(connection):
            return connection
        connection.close()
    return _connection(url, timeout_s)


def _connection(url: str, timeout_s: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
    believed = _believed(os.environ.get("DOCSTORE_CACERT", ""))
    return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=believed)


@cache
def _believed(file: str) -> ssl.SSLContext:
    """Return whom to believe: the CAs of a file, or those of the system. Raises OSError."""
    return ssl.create_default_context(cafile=file or None)


@atexit.register
def _close_idle() -> None:
    """Close what is kept, which Python would otherwise complain about when it ends."""
    for kept in _idle.values():
        for connection in kept:
            connection.close()


def _has_ended(connection: http.client.HTTPConnection) -> bool:
    """Say whether the other side has closed, or said what nobody asked for."""
    connection.sock.setblocking(False)
    try:
        return connection.sock.recv(1) is not None
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True
    finally:
        connection.sock.settimeout(connection.timeout)


def _refusal(status: int, content: bytes, url: str) -> GroupError:
    try:
        page = json.loads(content)
    except ValueError:
        page = {}
    page = page if isinstance(page, dict) else {}
    detail = page.get("detail") or content[:200].decode("utf-8", "replace")
    return GroupError(status, str(page.get("errorCode", "")), str(detail), url)


def pause(round_number: int) -> None:
    """Wait longer after each round, and not in step with others."""
    time.sleep(min(5.0, PAUSE_S * 2**round_number) * random.uniform(0.5, 1.5))
