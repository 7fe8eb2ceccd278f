"""The HTTP client of the pipeline, and its one retry policy. Standard library only.

Spark reuses its worker processes, so connections stay open between the requests of a process.
Nothing else is cached.

When a request is sent again:

| answer | request | sent again |
|---|---|---|
| 421, 425, 429, 503: the node did nothing | any | yes |
| no connection, or a broken one | any; a write must be repeatable | yes |
| 504: the node may have done it, or may do it yet | a write that names its job and batch | yes |
| 504 | a read, or a write without a name | no |
| all others | any | no |

A node that refuses the host name in a URL of the caller's (`foreign-host`) ends the attempts. If it
refuses its own advertised address, the caller's URLs are asked next.

A name makes a repetition harmless: the owner of a document compares job and batch, the leader of a
partition compares producer and sequence number. Writes without one are PUT of a whole page, DELETE
of a page, and POST of a factory, which answers `already-exists` the second time.
"""

import atexit
import contextlib
import http.client
import json
import os
import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from docstore.model.address import without_user
from docstore.model.recognising import BETWEEN, MANAGEMENT, is_a_nodes, is_named, told
from docstore.model.tokens import token_of_environment, with_token
from docstore.pipeline.errors import PipelineError

T = TypeVar("T")
TIMEOUT_S = 30.0
RETRIES = 5
PAUSE_S, PAUSE_MAX_S = 0.2, 5.0
NOT_DONE = frozenset({421, 425, 429, 503})
"""Statuses that say that a node did nothing; another node, or a later attempt, may succeed."""
REPEATABLE = NOT_DONE | {504}
"""Statuses after which a write that names its job and batch is sent again."""
FOREIGN_HOST = "foreign-host"
"""Code of a node that rejects the host name of a URL, which a retry does not change."""
LAYOUT = "/core/spark/layout"
_nodes: set[str] = set()
"""URLs that are known to belong to nodes."""
_idle: dict[tuple[int, str], list[http.client.HTTPConnection]] = {}


class GroupError(PipelineError):
    """A node refused a request."""

    def __init__(self, status: int, code: str, detail: str, url: str) -> None:
        super().__init__(f"{url}: {status} {code}: {detail}")
        self.status, self.code, self.detail, self.url = status, code, detail, url


class Incomplete(PipelineError):
    """An answer was cut off."""


class BadUrl(PipelineError, ValueError):
    """The text is not the URL of a node."""


class BadToken(PipelineError, ValueError):
    """The token in the environment cannot be read, or has the wrong form."""


class NoNode(PipelineError):
    """Another server answers at the URL of a node."""


class Unreachable(PipelineError, OSError):
    """There is no connection to a node, or it broke."""


FAILED = (GroupError, OSError)
"""Errors of a request, some of which `insist_on_retry` lets pass. Unreachable is an OSError."""


def insist_on_retry(error: Exception, statuses: frozenset[int] = NOT_DONE) -> None:
    """Raise the error of a request that must not be sent again."""
    if isinstance(error, GroupError) and error.status not in statuses:
        raise error


def attempts(count: int, per_round: int = 1) -> Iterator[int]:
    """Yield the numbers of some attempts. Pause before each one that follows the first round.

    per_round: number of nodes that are asked in turn.
    """
    for attempt in range(count):
        if attempt >= per_round:
            pause((attempt - 1) // per_round)
        yield attempt


def pause(round_number: int) -> None:
    """Sleep, longer after each round, for a random time so that tasks do not retry together."""
    time.sleep(min(PAUSE_MAX_S, PAUSE_S * 2**round_number) * random.uniform(0.5, 1.5))


def in_turn(
    urls: Sequence[str], retries: int, ask: Callable[[str], T],
    statuses: frozenset[int] = NOT_DONE, *, final: str | None = None,
) -> T:  # fmt: skip
    """Return the first answer of a node, asking all nodes in turn for up to `retries` + 1 rounds.

    final: the code of a refusal that ends the attempts. Raises the error that ended them, or the
    last one.
    """
    last: Exception = OSError("give at least one URL of a node, such as http://n1:8001")
    for attempt in attempts((retries + 1) * len(urls), len(urls)):
        try:
            return ask(urls[attempt % len(urls)])
        except FAILED as error:
            insist_on_retry(error, statuses)
            if isinstance(error, GroupError) and error.code == final:
                raise
            last = error
    raise last


class GroupClient:
    """A client of the nodes of a group, which it asks in turn."""

    def __init__(
        self, urls: Sequence[str], *, timeout_s: float = TIMEOUT_S, retries: int = RETRIES
    ) -> None:
        self.urls = [url_of(url) for url in urls]
        self.timeout_s = timeout_s
        self.retries = retries

    def json(self, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON of the first node that answers. Raises GroupError, OSError."""

        def ask(url: str) -> Any:
            with self.open(method, url, path, body) as answer:
                return json.loads(answer.read())

        return in_turn(self.urls, self.retries, ask, final=FOREIGN_HOST)

    def plan(self, as_of: str = "latest", path: str = "", prefix: str = "") -> dict[str, Any]:
        """Return a plan: the token of a cut, the end of each slot in it, the layout of the group.

        as_of: latest, barrier, a time, the name of a snapshot, or a token. path: a factory that
        must exist. prefix: a path that need not exist. The token in the environment must allow
        reading these; without path and prefix, reading everything. Raises GroupError, OSError.
        """
        named = {"path": path} if path else {"prefix": prefix} if prefix else {}
        asked = urlencode({"asOf": as_of} | named)
        plan: dict[str, Any] = self.json("GET", f"/core/spark/plan?{asked}")
        return plan

    def layout(self) -> dict[str, Any]:
        """Return the nodes, and the owner and the replicas of each slot as numbers of nodes."""
        page: dict[str, Any] = self.json("GET", LAYOUT)
        return page

    def high(self, prefix: str = "") -> dict[str, Any]:
        """Return the end of each slot's log. Raises GroupError, OSError.

        prefix: as in `plan`.
        """
        asked = f"?{urlencode({'prefix': prefix})}" if prefix else ""
        page: dict[str, Any] = self.json("GET", f"/core/spark/high{asked}")
        return page

    @contextlib.contextmanager
    def open(
        self, method: str, url: str, path: str, body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[http.client.HTTPResponse]:  # fmt: skip
        """Ask one node, and yield its answer as a stream.

        body: bytes and files are sent as they are, anything else as JSON. Raises GroupError, and
        Unreachable also for a connection that breaks while the caller reads.
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
        """Raise NoNode unless the server at `url`, whose answer does not name a node, is a node."""
        with contextlib.closing(_connection(url, self.timeout_s)) as connection:
            connection.request("GET", MANAGEMENT)
            answer = connection.getresponse()
            page = answer.read()
            if not is_named(answer.headers) and not is_a_nodes(page):
                met.close()  # The answer may own the connection by now.
                what = f"it answers {asked} with {told(met.status, met.headers)}"
                raise NoNode(
                    f"the server at {url} is not a docstore node: {what}; give the URL of a node"
                )
            _nodes.add(url)


def _token() -> dict[str, str]:
    """Return the header with the token from the environment. Raises BadToken.

    There is no option for it, since Spark shows options in plans and on pages.
    """
    try:
        return dict(with_token({}, token_of_environment()) or {})
    except ValueError as error:
        raise BadToken(f"docstore: {error}") from None


def _why(error: Exception) -> str:
    """Return why a connection failed, as a text."""
    if isinstance(error, http.client.IncompleteRead):
        return "the answer was cut off"
    said = str(error) or type(error).__name__
    return said.partition("] ")[2] or said


def url_of(url: str) -> str:
    """Return the URL of a node without spaces and a slash at its end. Raises BadUrl."""
    url = url.strip().rstrip("/")
    try:
        without_user(url)
    except ValueError as error:
        raise BadUrl(str(error)) from None
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        # A path in it would be ignored.
        is_url = is_url and url == f"{parts.scheme}://{parts.netloc}"
    except ValueError:
        is_url = False
    if not is_url:
        raise BadUrl(
            f"the URL of a node must be http://HOST:PORT or https://HOST:PORT; got {url!r}"
        )
    return url


def _connected(url: str, timeout_s: float) -> http.client.HTTPConnection:
    """Return an idle connection that is still open, or a new one."""
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
    trusted = _trusted(os.environ.get("DOCSTORE_CACERT", ""))
    return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=trusted)


@cache
def _trusted(file: str) -> ssl.SSLContext:
    """Return a context that trusts the CAs of a file, or of the system. Raises OSError."""
    return ssl.create_default_context(cafile=file or None)


@atexit.register
def _close_idle() -> None:
    """Close all idle connections: Python warns about open ones when it exits."""
    for kept in _idle.values():
        for connection in kept:
            connection.close()


def _has_ended(connection: http.client.HTTPConnection) -> bool:
    """Say whether the node has closed an idle connection, or sent bytes without a request."""
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
