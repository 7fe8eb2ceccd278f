"""The client itself: one HTTP session, a list of nodes, and rules for when to ask again."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import aiohttp
import orjson

from docstore.client.consumer import Reading, ReadRecord, consume
from docstore.client.elections import Election, Lock
from docstore.client.errors import BadAddress, RequestFailed, Unanswered, Unreachable
from docstore.client.groups import ConsumerGroup
from docstore.client.leases import Lease, Leases
from docstore.client.producer import Producer
from docstore.client.roles import Role

ATTEMPTS = 8
PAUSE_S = 0.1
JSON = {"Content-Type": "application/json"}
NOTHING: Mapping[str, str] = {}
NDJSON = {"Content-Type": "application/x-ndjson"}


@dataclass(frozen=True, slots=True)
class Document:
    """A document as a node gave it: its fields, its entity tag and its version."""

    value: dict[str, Any]
    etag: str

    @property
    def version(self) -> int:
        """Return the version of this state."""
        return int(self.value["documentVersion"])


class Changes(NamedTuple):
    """Some versions as they came about, and where the next ones begin."""

    changes: list[dict[str, Any]]
    next: str


class Client:
    """Speaks to a group through any of its nodes."""

    def __init__(self, urls: Sequence[str], *, timeout_s: float = 30.0) -> None:
        self.urls = [url.rstrip("/") for url in urls]
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None
        self._first = 0
        self._leases: Leases | None = None

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
        """Close the session; leases that are still held end by themselves."""
        assert self._session is not None
        if self._leases is not None:
            await self._leases.stop()
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
                raise BadAddress(f"{url + path} is not the address of a document") from error
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
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session.request(method, url + path, data=body, headers=headers) as answer,
            ):
                content = await answer.read()
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise BadAddress(f"{url + path} is not an address") from error
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

    # Documents

    async def get(self, link: str, *, version: int | None = None, at: str = "") -> Document:
        """Return a document as it is, or as it was."""
        query = f"?documentVersion={version}" if version is not None else ""
        query = f"?at={quote(at)}" if at else query
        return await self._document("GET", link, query)

    async def put(
        self,
        link: str,
        value: dict[str, Any],
        *,
        if_match: str = "",
        fence: str = "",
        lease: Lease | None = None,
    ) -> Document:
        """Replace a document, or create it. fence: `<scope>:<token>`, of whoever is in charge.

        lease: when it ends, the document is deleted, or released.
        """
        said = _said(if_match, fence, lease)
        return await self._document("PUT", link, value=value, said=said)

    async def patch(
        self,
        link: str,
        value: dict[str, Any],
        *,
        if_match: str = "",
        fence: str = "",
        lease: Lease | None = None,
    ) -> Document:
        """Change some fields of a document."""
        said = _said(if_match, fence, lease)
        return await self._document("PATCH", link, value=value, said=said)

    async def post(
        self,
        factory: str,
        value: dict[str, Any],
        *,
        fence: str = "",
        lease: Lease | None = None,
    ) -> Document:
        """Create a document with an id of its own."""
        said = _said("", fence, lease)
        return await self._document("POST", factory, value=value, said=said)

    async def delete(self, link: str, *, if_match: str = "", fence: str = "") -> Document:
        """Delete a document; its history stays."""
        return await self._document("DELETE", link, said=_said(if_match, fence, None))

    async def _document(
        self,
        method: str,
        link: str,
        query: str = "",
        *,
        value: Any = None,
        said: Mapping[str, str] = NOTHING,
    ) -> Document:
        """Ask about one document. said: headers."""
        headers = {**JSON, **said}
        body = None if value is None else orjson.dumps(value)
        _, answered, content = await self.request(method, quote(link) + query, body, headers)
        return Document(orjson.loads(content), answered.get("ETag", ""))

    async def history(self, link: str) -> list[dict[str, Any]]:
        """Return all versions of a document, newest first."""
        versions: list[dict[str, Any]] = []
        path: str | None = f"{quote(link)}/versions?limit=500"
        while path:
            page = await self.json("GET", path)
            versions += page["versions"]
            path = page.get("nextPageLink")
        return versions

    async def ls(self, factory: str, *, expand: bool = False) -> list[Any]:
        """Return the links under a factory, or the documents if `expand`."""
        found: list[Any] = []
        path: str | None = f"{quote(factory)}?$limit=1000" + ("&expand" if expand else "")
        while path:
            page = await self.json("GET", path)
            found += page["documents"].values() if expand else page["documentLinks"]
            path = page.get("nextPageLink")
        return found

    async def changes(
        self, path: str = "", *, since: str = "latest", where: str = "", wait_s: int = 20
    ) -> AsyncIterator[Changes]:
        """Yield what changes at a path and below it, for ever; what is there already at once.

        since: `next` of before, earliest, latest, a time with its zone, or a snapshot's name. None
        is missed, whichever node answers. wait_s: for each answer; without changes it is empty.
        """
        while True:
            asked = orjson.dumps({"prefix": path, "since": since, "where": where})
            headers = JSON | {"Prefer": f"wait={wait_s}"}
            _, _, content = await self.request(
                "POST", "/core/changes", asked, headers, only_reads=True
            )
            *lines, ending = content.splitlines()
            since = orjson.loads(ending)["next"]
            yield Changes([orjson.loads(line) for line in lines], since)

    async def declare(self, factory: str, **members: Any) -> None:
        """Declare a factory; one that is there already is left as it is."""
        try:
            await self.json("POST", "/core/factories", {"path": factory, **members})
        except RequestFailed as error:
            if error.status != 409:
                raise

    # Leases

    def lease(
        self, *, ttl_s: float = 10.0, behavior: str = "delete", holder: str = "", name: str = ""
    ) -> Lease:
        """Return a lease, for `async with`; see `docstore/client/leases.py`.

        behavior: what becomes of documents that are attached to it, "delete" or "release".
        holder: who it is, for people. name: its id, if it should be a certain one.
        """
        if self._leases is None:
            self._leases = Leases(self)
        return Lease(self._leases, ttl_s, behavior=behavior, holder=holder, name=name)

    # Streams

    def producer(
        self,
        topic: str,
        *,
        id: str = "",  # noqa: A002 - as in `docstore produce --id`
        acks: str = "committed",
        batch: int = 500,
    ) -> Producer:
        """Return a producer, for `async with`; see `docstore/client/producer.py`."""
        return Producer(self, topic, id=id, acks=acks, batch=batch)

    def consume(
        self,
        topic: str,
        *,
        partition: int | None = None,
        since: str = "beginning",
        isolation: str = "committed",
        follow: bool = True,
    ) -> AsyncIterator[ReadRecord]:
        """Yield records of a partition in order, or of all partitions side by side.

        since: an offset, beginning, end, end-N, a time with its zone, or @ and microseconds.
        follow: go on for ever, else until what is committed now has been read.
        """
        reading = Reading(since, isolation, follow)
        return consume(self, topic, partition, reading)

    # Whose turn it is

    def lock(
        self, name: str, *, candidate: str = "", ttl_s: float = 10.0, lease: Lease | None = None
    ) -> Lock:
        """Return a lock, for `async with`; see `docstore/client/elections.py`.

        ttl_s: so long after the last that was heard of its holder the next one holds it. lease: one
        that stands already, for this and for others, instead.
        """
        return Lock(self, name, candidate=candidate, lease=lease, ttl_s=ttl_s)

    def election(
        self, name: str, *, candidate: str = "", ttl_s: float = 10.0, lease: Lease | None = None
    ) -> Election:
        """Return an election: to `observe`, or for `async with` to be a candidate of it."""
        return Election(self, name, candidate=candidate, lease=lease, ttl_s=ttl_s)

    # Roles and groups

    def role(self, name: str, **settings: Any) -> Role:
        """Return a part in leading roles, for `async with`; settings: of `roles.Role`."""
        return Role(self, name, **settings)

    def group(self, name: str, topics: Sequence[str], **settings: Any) -> ConsumerGroup:
        """Return a part in reading topics, for `async with`; settings: of `ConsumerGroup`."""
        return ConsumerGroup(self, name, topics, **settings)

    async def bulk(self, operations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return a result for each operation, in their order."""
        body = b"".join(orjson.dumps(operation) + b"\n" for operation in operations)
        _, _, content = await self.request("POST", "/core/bulk", body, NDJSON)
        return [orjson.loads(line) for line in content.splitlines()]


def _said(if_match: str, fence: str, lease: Lease | None) -> dict[str, str]:
    """Return the headers of a write."""
    said = {"If-Match": if_match, "Fence": fence, "Docstore-Lease": lease.link if lease else ""}
    return {name: each for name, each in said.items() if each}


def _problem(content: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {"detail": content[:200].decode("utf-8", "replace")}
    return value if isinstance(value, dict) else {}
