"""Groups and roles over HTTP; `services/group_document.py` defines them.

    /core/groups, /core/roles                           POST, GET
    /core/groups/<name>, /core/roles/<name>             GET (?role=7), PATCH (settings), DELETE
    .../<name>/members                                  GET, POST (join)
    .../<name>/members/<id>                             PATCH (heartbeat, wait), DELETE (leave)
    /core/groups/<name>/offsets                         GET, POST (commit)
    /core/groups/<name>/offsets/<topic>/<partition>     GET, PATCH (claim, reset)

The page of a group shows its document and live figures from its coordinator.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import orjson
from aiohttp import web

from docstore.errors import BadRequest
from docstore.http import headers
from docstore.http.authority import authority_of
from docstore.http.backend import Backend
from docstore.http.documents import DocumentPages
from docstore.http.group_members import asked_in, insist_on_topics
from docstore.http.group_offsets import GroupNotEmpty
from docstore.http.listing import FactoryPages
from docstore.http.own_documents import creation, link_in
from docstore.http.read_first import updated
from docstore.http.reply import Reply, header_lines
from docstore.http.representation import document_json, entity_tag, page_reply
from docstore.model import json
from docstore.model.document import Row
from docstore.model.fields import Fields
from docstore.model.operation import Operation
from docstore.model.paths import encoded
from docstore.ownership.by_induction import partition_of
from docstore.runtime.offsets_backend import NoSuchGroup, OffsetsBackend, group_at
from docstore.services.group_document import (
    GROUPS,
    PARTITIONS_MAX,
    ROLES,
    GroupState,
    group_of,
    new_group,
)
from docstore.sessions.group_messages import kind_of
from docstore.streams.replica_set import STREAMS

LIVE_S = 2.0
"""Timeout for live figures from the coordinator; without them a page shows the document alone."""


class GroupPages(FactoryPages):
    """Answers /core/groups, /core/roles, and the path of each group or set of roles."""

    def __init__(self, backend: Backend, documents: DocumentPages) -> None:
        super().__init__(backend, documents)
        self._offsets = OffsetsBackend(backend, lambda: backend.inside().stream_backend)

    async def create(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        fields = Fields(asked_in(request, body))
        link = link_in(fields, path)
        if path == ROLES:
            parts = {"": fields.whole("partitions", 1, PARTITIONS_MAX)}
        else:
            parts = await self._parts(request, fields.texts("topics"))
        state = new_group(fields.rest(), parts=parts).state()
        reply = await self._submitted(request, path, creation(request, link, state))
        if reply.status == 201:
            reply.head += header_lines({"Location": encoded(link)})
        return reply

    async def _parts(self, request: web.BaseRequest, topics: tuple[str, ...]) -> dict[str, int]:
        """Return topic -> number of its partitions. Raises NoSuchTopic."""
        streams, timeout_s = self._backend.inside().stream_backend, headers.timeout_s(request)
        for each in topics:
            authority_of(request).insist("GET", f"{STREAMS}/{each}")
        found = await asyncio.gather(*[streams.topic(each, timeout_s) for each in topics])
        return {topic.name: topic.partitions for topic in found}

    async def get(self, request: web.BaseRequest, link: str, body: bytes) -> Reply:
        """Answer with the document, and the coordinator's live figures of its members."""
        timeout_s, media = headers.timeout_s(request), headers.accepted_media(request)
        row, group = await group_at(self._backend, link, timeout_s)
        insist_on_topics(request, link, group)
        fresh = {"Cache-Control": "no-store"}
        role = request.rel_url.query.get("role")
        if role is not None:
            return page_reply(_led(group, role), media, headers=fresh)
        told = await self._backend.inside().session_backend.call(
            link, kind_of(link, "show"), None, min(LIVE_S, timeout_s)
        )
        kind = self._service(link.rpartition("/")[0]).options.kind
        page = orjson.loads(document_json(row, kind)) | {
            "partitionList": [_entry(group, name) for name in group.partitions],
            "live": told.result,
            "stale": told.result is None,
        }
        reply = page_reply(page, media, headers=fresh)
        reply.head += b"ETag: %b\r\n" % entity_tag(row, media, 3)
        return reply

    async def change(self, request: web.BaseRequest, link: str, body: bytes) -> Reply:
        """Change the settings of a group that has no members."""
        asked = asked_in(request, body)

        async def change(row: Row) -> Operation:
            group = group_of(json.load(row.state))
            if group.members:
                raise GroupNotEmpty(
                    f"{link} can be changed only while it has no members: stop its consumers"
                )
            fields, parts = Fields(asked), group.parts
            if "partitions" in asked and "" in parts:
                parts = {"": fields.whole("partitions", 1, PARTITIONS_MAX)}
            elif "topics" in asked and "" not in parts:
                parts = await self._parts(request, fields.texts("topics"))
            after = new_group(group.settings.state() | fields.rest(), parts=parts)
            is_new = after != replace(group, generation=0, tenure={})
            after = replace(after, generation=group.generation + is_new)
            return Operation(verb="PATCH", link=link, body=after.pack(), media="handler")

        return await self._update(request, link, change)

    async def delete(self, request: web.BaseRequest, link: str, body: bytes) -> Reply:
        group: GroupState | None = None

        async def deletion(row: Row) -> Operation:
            nonlocal group
            group = group_of(json.load(row.state))
            if group.members:
                raise GroupNotEmpty(
                    f"{link} can be deleted only while it has no members: stop its consumers"
                )
            return Operation(verb="DELETE", link=link)

        reply = await self._update(request, link, deletion)
        if reply.status == 200 and group is not None and link.startswith(GROUPS):
            await self._offsets.forget(link, group, headers.timeout_s(request))
        return reply

    async def _update(
        self,
        request: web.BaseRequest,
        link: str,
        update_of: Callable[[Row], Awaitable[Operation]],
    ) -> Reply:
        answer = await updated(self._backend, request, link, update_of)
        if answer.status == 404:
            raise NoSuchGroup(f"there is nothing at {link}")
        service = self._service(link.rpartition("/")[0])
        return self._documents.reply(request, answer, service, headers.accepted_media(request))


def _entry(group: GroupState, partition: str) -> dict[str, Any]:
    held = group.tenure.get(partition)
    return {
        "partition": partition,
        "target": group.target.get(partition),
        "member": held.member if held else None,
        "token": held.token if held else None,
    }


def _led(group: GroupState, role: str) -> dict[str, Any]:
    """Return the page entry of a role: the member that may lead it."""
    if "" not in group.parts:
        raise BadRequest("role: only sets of roles have them, and this is a group of consumers")
    number = headers.whole_number(role, "role", 0, 1 << 62)
    entry = _entry(group, str(partition_of(number, group.parts[""])))
    is_moving = entry["member"] is not None and entry["target"] != entry["member"]
    return {"role": number, **entry, "revoking": is_moving}
