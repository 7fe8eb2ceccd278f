"""Requests to a group: one HTTP session, a list of nodes, and rules for when to ask again."""

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

from docstore.client.errors import BadAddress, RequestFailed, Unanswered, Unreachable

ATTEMPTS = 8
PAUSE_S = 0.1
JSON = {"Content-Type": "application/json"}


class Requests:
    """One HTTP session with any of a group's nodes."""

    def __init__(self, urls: Sequence[str], *, timeout_s: float = 30.0) -> None:
        self.urls = [url.rstrip("/") for url in urls]
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None
        self._first = 0

    async def __aenter__(self) -> Self:
        """Open the session."""
        self._session = aiohttp.ClientSession(
            timeout=self._timeout, connector=aiohttp.TCPConnector(limit=0)
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the session."""
        assert self._session is not None
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        only_reads: bool = False,
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers and body. only_reads: a POST that may be sent twice.

        Raises BadAddress, Unreachable, RequestFailed from 400 on, Unanswered. A read whose answer
        is lost is sent again; an update is not.
        """
        assert self._session is not None, "use `async with Client(...)`"
        _check_link(path)
        refusals: list[str] = []
        for attempt in range(ATTEMPTS):
            url = self.urls[(self._first + attempt) % len(self.urls)]
            try:
                async with self._session.request(
                    method, url + path, data=body, headers=headers
                ) as answer:
                    content = await answer.read()
                    if answer.status == 503 and attempt + 1 < ATTEMPTS:
                        await asyncio.sleep(PAUSE_S * (attempt + 1))
                        continue
                    if answer.status >= 400:
                        raise RequestFailed(answer.status, _problem(content))
                    return answer.status, answer.headers, content
            except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
                raise _not_a_node(url) from error
            except aiohttp.ClientConnectorError as error:
                refusals.append(str(error))
                self._first = (self._first + attempt + 1) % len(self.urls)
                await asyncio.sleep(PAUSE_S if attempt >= len(self.urls) - 1 else 0)
            except (aiohttp.ClientError, TimeoutError) as error:
                why = str(error) or "no answer in time"
                if method not in ("GET", "HEAD") and not only_reads:
                    raise Unanswered(f"{url}: {why}; it may have happened") from error
                refusals.append(f"{url}: {why}")
                self._first = (self._first + attempt + 1) % len(self.urls)
        raise Unreachable(f"no node answers: {refusals[-1] if refusals else 'all are busy'}")

    async def once(
        self,
        url: str,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout_s: float,
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Ask one node, once. Raises BadAddress, Unreachable, RequestFailed, Unanswered."""
        assert self._session is not None, "use `async with Client(...)`"
        _check_link(path)
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session.request(method, url + path, data=body, headers=headers) as answer,
            ):
                content = await answer.read()
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise _not_a_node(url) from error
        except aiohttp.ClientConnectorError as error:
            raise Unreachable(str(error)) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            raise Unanswered(f"{url}: {why}; it may have happened") from error
        if answer.status >= 400:
            raise RequestFailed(answer.status, _problem(content))
        return answer.status, answer.headers, content

    async def json(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Return the parsed answer of any request."""
        raw = None if body is None else orjson.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        _, _, content = await self.request(method, path, raw, JSON | named)
        return orjson.loads(content) if content else None


def _check_link(path: str) -> None:
    """Raise BadAddress before `1/notes` is taken for a part of the port."""
    if not path.startswith("/"):
        raise BadAddress(f"{path.partition('?')[0]!r} is not a link: links begin with /")


def _not_a_node(url: str) -> BadAddress:
    return BadAddress(f"{url!r} is not the URL of a node, such as http://127.0.0.1:8001")


def _problem(content: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {"detail": content[:200].decode("utf-8", "replace")}
    return value if isinstance(value, dict) else {}
