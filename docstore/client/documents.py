"""Requests for documents, single and in bulk, and for leases, which documents can depend on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import orjson

from docstore.client.errors import RequestFailed, Unavailable, check_same
from docstore.client.feed import FeedRequests
from docstore.client.leases import Lease, LeaseKeepers
from docstore.client.requests import JSON, KEY
from docstore.model.service import LEVEL_3

NDJSON = {"Content-Type": "application/x-ndjson"}
NOTHING: Mapping[str, str] = {}

USUAL: Mapping[str, Any] = {
    "options": LEVEL_3, "putCreates": True, "requiresPrecondition": False, "requiresFence": False,
    "nodeSelector": "default", "defaultExpirationSeconds": 0, "retention": {}, "schema": None,
}  # fmt: skip
"""Defaults of those members of a declaration that change how a factory behaves."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document as a node returned it: its fields and its entity tag."""

    value: dict[str, Any]
    etag: str

    def __getitem__(self, name: str) -> Any:
        return self.value[name]

    @property
    def link(self) -> str:
        """Return the link of the document."""
        return str(self.value["documentSelfLink"])

    @property
    def version(self) -> int:
        """Return the version of this state."""
        return int(self.etag.strip('"').rpartition(".")[2])


class DocumentRequests(FeedRequests):
    """Reads and writes the documents of a group."""

    _leases: LeaseKeepers | None = None

    async def __aexit__(self, *raised: object) -> None:
        """Close the session; leases that are still held end by themselves."""
        if self._leases is not None:
            await self._leases.stop()
        await super().__aexit__(*raised)

    async def get(
        self,
        link: str,
        *,
        version: int | None = None,
        at: str = "",
        consistency: str = "",
        timeout_s: float | None = None,
    ) -> Document:
        """Return a document in its present state, or in that of a version or time.

        consistency: "committed" or "stale" for the replica of the node that is asked, which may lag
        (docs/guarantees.md). timeout_s: deadline with all retries, None for the client's.
        """
        query = f"?documentVersion={version}" if version is not None else ""
        query = f"?at={quote(at)}" if at else query
        said = _given({"Docstore-Consistency": consistency})
        return await self._document("GET", link, query, said=said, timeout_s=timeout_s)

    async def put(
        self,
        link: str,
        value: dict[str, Any],
        *,
        if_match: str = "",
        if_none_match: str = "",
        fence: str = "",
        lease: Lease | None = None,
        key: str | None = None,
        timeout_s: float | None = None,
    ) -> Document:
        """Replace a document, or create it.

        The client repeats an update without an answer until `timeout_s` is over. It takes effect
        once, if its factory has ENFORCE_QUORUM.

        if_none_match: "*" to create only. fence: `<scope>:<token>`, of the holder of a lock, lease
        or role. lease: lease to attach the document to; when that ends, the document is deleted or
        released. key: idempotency key; None for a new one, "" for none, with which the
        update is sent once.
        timeout_s: deadline with all retries, None for the client's. Raises RequestFailed in one of
        its kinds, Unreachable, and Unanswered if the outcome is unknown.
        """
        said = _said(if_match, fence, lease) | _given({"If-None-Match": if_none_match})
        return await self._document(
            "PUT", link, value=value, said=said, key=key, timeout_s=timeout_s
        )

    async def patch(
        self,
        link: str,
        value: dict[str, Any],
        *,
        if_match: str = "",
        fence: str = "",
        lease: Lease | None = None,
        key: str | None = None,
        timeout_s: float | None = None,
    ) -> Document:
        """Change some fields of a document; arguments, retries and errors as of `put`."""
        said = _said(if_match, fence, lease)
        return await self._document(
            "PATCH", link, value=value, said=said, key=key, timeout_s=timeout_s
        )

    async def post(
        self,
        factory: str,
        value: dict[str, Any],
        *,
        fence: str = "",
        lease: Lease | None = None,
        key: str | None = None,
        timeout_s: float | None = None,
    ) -> Document:
        """Create a document under an id that the node chooses; arguments as of `put`."""
        said = _said("", fence, lease)
        return await self._document(
            "POST", factory, value=value, said=said, key=key, timeout_s=timeout_s
        )

    async def delete(
        self,
        link: str,
        *,
        if_match: str = "",
        fence: str = "",
        key: str | None = None,
        timeout_s: float | None = None,
    ) -> Document:
        """Delete a document; its history stays. Arguments as of `put`."""
        said = _said(if_match, fence, None)
        return await self._document("DELETE", link, said=said, key=key, timeout_s=timeout_s)

    async def _document(
        self,
        method: str,
        link: str,
        query: str = "",
        *,
        value: Any = None,
        said: Mapping[str, str] = NOTHING,
        key: str | None = "",
        timeout_s: float | None = None,
    ) -> Document:
        """Send a request about one document.

        said: headers.
        """
        headers = {**JSON, **said, **_keyed(key)}
        body = None if value is None else orjson.dumps(value)
        path = quote(link) + query
        try:
            found = await self.request(method, path, body, headers, timeout_s=timeout_s)
        except Unavailable as error:
            if key is not None or error.code != "too-many-keys":
                raise
            # Nothing was applied. A document that is updated so often has no room for our key.
            found = await self.request(method, path, body, {**JSON, **said}, timeout_s=timeout_s)
        _, answered, content = found
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

    async def declare(
        self,
        factory: str,
        *,
        kind: str | None = None,
        options: Sequence[str] | None = None,
        schema: Mapping[str, Any] | None = None,
        put_creates: bool | None = None,
        requires_precondition: bool | None = None,
        requires_fence: bool | None = None,
        default_expiration_seconds: int | None = None,
        indexes: Sequence[Any] | None = None,
        retention: Mapping[str, int] | None = None,
    ) -> None:
        """Declare a factory unless it exists. Raises Differs if it exists with other members.

        The members are those of docs/http.md; only those that are given are compared. For a factory
        that exists, the permission to write its documents is enough. Raises RequestFailed if the
        factory was deleted: only `Prefer: recreate` declares it again, since its documents then
        exist again.
        """
        members: dict[str, Any] = {
            "kind": kind, "options": options, "schema": schema, "putCreates": put_creates,
            "requiresPrecondition": requires_precondition, "requiresFence": requires_fence,
            "defaultExpirationSeconds": default_expiration_seconds, "indexes": indexes,
            "retention": retention,
        }  # fmt: skip
        members = {name: each for name, each in members.items() if each is not None}
        try:
            await self.json("POST", "/core/factories", {"path": factory, **members})
        except RequestFailed as error:
            if error.code not in ("already-exists", "forbidden"):
                raise
            if not await _is_declared(self, factory, members):
                raise

    def lease(
        self, *, ttl_s: float = 10.0, behavior: str = "delete", holder: str = "", name: str = ""
    ) -> Lease:
        """Return a lease, for `async with`; see `docstore/client/leases.py`.

        behavior: "delete" or "release", for the attached documents at its end. holder: description
        of this process, for people. name: id of the lease; "" for a new one.
        """
        if self._leases is None:
            self._leases = LeaseKeepers(self)
        return Lease(self._leases, ttl_s, behavior=behavior, holder=holder, name=name)

    async def bulk(self, operations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Carry out operations one by one; return a result for each, in the same order."""
        body = b"".join(orjson.dumps(operation) + b"\n" for operation in operations)
        _, _, content = await self.request("POST", "/core/bulk", body, NDJSON)
        return [orjson.loads(line) for line in content.splitlines()]

    async def atomic(
        self, operations: Sequence[Mapping[str, Any]], *, key: str | None = None, fence: str = ""
    ) -> list[dict[str, Any]]:
        """Carry out all operations or none; return a result for each, in their order.

        Their documents share a partition key, see docs/http.md. key: as of `put`. fence:
        `<scope>:<token>`, for all of them.
        Raises RequestFailed: `problem["line"]` is the number of the operation that was refused.
        """
        body = b"".join(orjson.dumps(operation) + b"\n" for operation in operations)
        headers = NDJSON | _given({"Fence": fence}) | _keyed(key)
        _, _, content = await self.request("POST", "/core/bulk?atomic=true", body, headers)
        return [orjson.loads(line) for line in content.splitlines()]


async def _is_declared(client: DocumentRequests, factory: str, members: Mapping[str, Any]) -> bool:
    """Say whether a factory exists. Raises Differs if it has other members."""
    name = factory.strip("/").replace("/", ":")
    try:
        page = await client.get(f"/core/factories/{name}")
    except RequestFailed as error:
        if error.status != 404:
            raise
        return False
    usual = {**USUAL, "kind": name.rstrip(":")}
    asked, found = (
        {each: _unordered(said.get(each, usual[each])) for each in members if each in usual}
        for said in (members, page.value)
    )
    check_same(factory, asked, found)
    return True


def _said(if_match: str, fence: str, lease: Lease | None) -> dict[str, str]:
    attached = lease.link if lease else ""
    return _given({"If-Match": if_match, "Fence": fence, "Docstore-Lease": attached})


def _keyed(key: str | None) -> dict[str, str]:
    return _given({KEY: uuid4().hex if key is None else key})


def _given(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: each for name, each in headers.items() if each}


def _unordered(value: Any) -> Any:
    """Return a member of a declaration in a form in which the order of options does not matter."""
    return sorted(value) if isinstance(value, list | tuple) else value
