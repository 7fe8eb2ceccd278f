"""/core/node-selectors: the spread of documents over nodes, and requests to chosen nodes.

`<selector>/forwarding?target=&path=` reads a page that a node shows of itself, from any node that
the client reaches. The target is one member (PEER_ID), the owner of a key or a link (KEY_HASH), or
all members (ALL). Only members are asked, by id and over the nodes' own connections: no request
names an address. Documents need no forwarding, since every node serves all of them.
"""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from docstore.errors import BadRequest, NotFound, TooLarge, Unavailable
from docstore.http import headers
from docstore.http.authority import authority_of
from docstore.http.backend import Backend
from docstore.http.reply import Reply, header_lines
from docstore.http.representation import encode, page_reply
from docstore.model.paths import canonical, canonical_link
from docstore.model.settings import quoted

SELECTORS = "/core/node-selectors/"
NAMES = ("default", "default-1x", "default-3x")
FORWARDING = "/forwarding"
TARGETS = ("KEY_HASH", "PEER_ID", "ALL")
FORWARDED = frozenset(
    {
        "/core/management", "/core/node-groups/default", *(SELECTORS + name for name in NAMES)
    }
)  # fmt: skip
"""Pages of a node about itself. The stats of factories and documents are forwarded too."""
BYTES_MAX = 16 << 20
"""Maximum bytes of one answer."""


class NoOwner(Unavailable):
    """The key has no owner now."""

    code = "no-owner"


class SelectorPages:
    """Answers everything under /core/node-selectors."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def selector(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET of a selector."""
        return page_reply(self._selector(path), headers.accepted_media(request))

    def _selector(self, path: str) -> Any:
        page = self._backend.inside().status.selector(path.removeprefix(SELECTORS))
        if page is None:
            raise NotFound(f"there is no node selector {path[:60]}")
        return page

    async def forwarded(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Forward a GET of a page to the selected nodes."""
        self._selector(path.removesuffix(FORWARDING))
        query, patience_s = request.rel_url.query, headers.timeout_s(request)
        path, target = _path(query), query.get("target", "")
        authority_of(request).insist("GET", path)
        if target == "ALL":
            return self._told(request, await self._of_all(path, patience_s))
        if target not in TARGETS:
            raise BadRequest(f"target must be one of {', '.join(TARGETS)}; got {quoted(target)}")
        member = self._member(query, target)
        reply = self._told(request, await self._backend.node_pages.at(member, path, patience_s))
        reply.head += header_lines({"Docstore-Node": member})
        return reply

    def _member(self, query: Mapping[str, str], target: str) -> str:
        """Return the member to ask. Raises BadRequest, NoOwner."""
        if target == "PEER_ID":
            if not query.get("peer"):
                raise BadRequest("target PEER_ID requires the parameter `peer`: the id of a member")
            return query["peer"]
        key = canonical_link(query["link"]) if "link" in query else query.get("key")
        if not key:
            raise BadRequest("target KEY_HASH requires the parameter `link` or `key`")
        owner = self._backend.owner_of(key)
        if owner is None:
            raise NoOwner(f"{key[:100]!r} has no owner at the moment: retry")
        return owner

    async def _of_all(self, path: str, patience_s: float) -> dict[str, Any]:
        found = await self._backend.node_pages.of_all(path, patience_s)
        return {
            "kind": "NodeGroupBroadcastResponse",
            "path": path,
            "jsonResponses": dict(found.pages),
            "failures": {
                name: {"statusCode": 503, "errorCode": "unavailable", "message": why}
                for name, why in found.failures.items()
            },
            "totalNodeCount": len(found.pages) + len(found.failures),
            "unavailableNodeCount": len(found.failures),
        }

    def _told(self, request: web.BaseRequest, page: Any) -> Reply:
        media = headers.accepted_media(request)
        body = encode(page, media)
        if len(body) > BYTES_MAX:
            raise TooLarge(
                f"the answer has more than {BYTES_MAX >> 20} MiB: ask one node, by target PEER_ID"
            )
        return Reply(200, body, header_lines({"Content-Type": media}))


def _path(query: Mapping[str, str]) -> str:
    """Return the path to forward. Raises BadRequest."""
    path = canonical(query.get("path", ""))
    if path not in FORWARDED and not path.endswith("/stats"):
        raise BadRequest(f"path must be one of {', '.join(sorted(FORWARDED))}, or end with /stats")
    return path
