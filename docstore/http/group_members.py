"""Members of groups and roles over HTTP: requests of members, answered by the coordinator.

A client may repeat each of these requests, and none of them writes a document of the client. So a
request without an answer needs no `unknown` outcome: a 503 is enough.
"""

from typing import Any

from aiohttp import web

from docstore.errors import BadRequest
from docstore.http import bodies, headers
from docstore.http.authority import authority_of, refusal
from docstore.http.backend import Backend
from docstore.http.long_poll import waiting
from docstore.http.parameters import flag
from docstore.http.problems import problem
from docstore.http.reply import Reply
from docstore.http.representation import page_reply
from docstore.http.visible_links import may_see_topics
from docstore.model import json
from docstore.model.fields import Fields
from docstore.model.service import Malformed, State
from docstore.model.settings import quoted
from docstore.runtime.offsets_backend import group_at
from docstore.services.group_document import (
    CAPACITY_MAX,
    NUMBER_MAX,
    PARTITIONS_MAX,
    TEXT_MAX,
    GroupState,
    MemberDetails,
)
from docstore.sessions.group_messages import (
    Fenced,
    Join,
    Joined,
    Leave,
    Pulse,
    Request,
    Wait,
    kind_of,
    reply_of,
    shown,
)
from docstore.wire import sessions_messages as messages

PATCHES = {"application/json": "", "application/merge-patch+json": "", "application/msgpack": ""}
WAIT_S, WAIT_S_MAX = 20, 60
ANSWER_S = 1.0
"""Seconds for the coordinator's answer to arrive after a wait."""


def link_of(path: str) -> str:
    """Return the link of the group at a path or above it."""
    return "/".join(path.split("/", 4)[:4])


def asked_in(request: web.BaseRequest, body: bytes) -> dict[str, Any]:
    """Return the members of a body about a group. Raises BadRequest, UnsupportedMedia."""
    return json.parse_object(bodies.json_bytes(body, headers.content_media(request, PATCHES)))


def insist_on_topics(request: web.BaseRequest, link: str, group: GroupState) -> None:
    """Hide a group from callers that may not read all of its topics. Raises NotFound."""
    if not may_see_topics(authority_of(request), group.parts):
        raise refusal("GET", link)


async def insist_on_group(backend: Backend, request: web.BaseRequest, link: str) -> None:
    """Hide the pages below a group from callers that may not see the group. Raises NotFound."""
    if not authority_of(request).reads_all:
        _, group = await group_at(backend, link, headers.timeout_s(request))
        insist_on_topics(request, link, group)


class MemberPages:
    """Answers everything under `.../members`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def show(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        link = link_of(path)
        await insist_on_group(self._backend, request, link)
        return await self._call(request, link, "show", None)

    async def join(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Add a process to a group."""
        said = _join(asked_in(request, body))
        return await self._ask(request, link_of(path), said, headers.timeout_s(request))

    async def leave(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Remove a member that leaves, or that an operator fences."""
        link, member = link_of(path), path.rpartition("/")[2]
        query = request.rel_url.query
        if flag(query, "force"):
            return await self._call(request, link, "fence", member)
        leave = Leave(member, flag(query, "drain"))
        return await self._ask(request, link, leave, headers.timeout_s(request))

    async def hear(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer a member's heartbeat at once, and its wait when the assignment changed."""
        link, timeout_s = link_of(path), headers.timeout_s(request)
        said = _said(path.rpartition("/")[2], asked_in(request, body))
        if not isinstance(said, Wait):
            return await self._ask(request, link, said, timeout_s)
        wait = headers.preference(request, "wait") or str(WAIT_S)
        wait_s = headers.whole_number(wait, "Prefer: wait", 1, WAIT_S_MAX)
        with waiting(request):
            return await self._ask(request, link, said, wait_s + ANSWER_S, wait_s * 1000)

    async def _ask(
        self, request: web.BaseRequest, link: str, said: Request, timeout_s: float, *more: int
    ) -> Reply:
        told = await self._tell(link, type(said).__name__.lower(), [*said, *more], timeout_s)
        if told.code:
            return _refused(request, told)
        reply = reply_of(told.result)
        if isinstance(reply, Fenced):
            status, code = (404, "unknown-member") if reply.why == "unknown" else (409, "fenced")
            detail = "the sender is not a member any more: stop reading, and join under another id"
            return problem(status, code, detail, instance=request.raw_path)
        status = 201 if isinstance(reply, Joined) else 200
        return page_reply(shown(reply), headers.accepted_media(request), status=status)

    async def _call(self, request: web.BaseRequest, link: str, verb: str, argument: Any) -> Reply:
        told = await self._tell(link, verb, argument, headers.timeout_s(request))
        if told.code:
            return _refused(request, told)
        return page_reply({"members": told.result}, headers.accepted_media(request))

    async def _tell(self, link: str, verb: str, argument: Any, timeout_s: float) -> messages.Reply:
        return await self._backend.inside().session_backend.call(
            link, kind_of(link, verb), argument, timeout_s
        )


def _refused(request: web.BaseRequest, told: messages.Reply) -> Reply:
    return problem(told.status, told.code, told.detail, instance=request.raw_path)


def _join(asked: State) -> Join:
    fields = Fields(asked)
    join = Join(
        fields.text("member"),
        MemberDetails(
            instance=fields.text("instance", default=""),
            host=fields.text("host", default=""),
            capacity=fields.whole("capacity", 1, CAPACITY_MAX, default=1),
        ),
        fields.text("former", default=""),
    )
    fields.end()
    if not 0 < len(join.member) <= TEXT_MAX or "/" in join.member or "%" in join.member:
        raise Malformed(f"member must be an id of 1 to {TEXT_MAX} characters without / and %")
    return join


def _said(member: str, asked: State) -> Pulse | Wait:
    fields = Fields(asked)
    kind = fields.text("kind")
    if kind not in ("HeartbeatRequest", "WaitRequest"):
        raise BadRequest(f"kind must be HeartbeatRequest or WaitRequest; got {quoted(kind)}")
    generation = fields.whole("generation", -1, NUMBER_MAX)
    listing = fields.whole("listing", 0, NUMBER_MAX)
    if kind == "WaitRequest":
        fields.end()
        return Wait(member, generation, listing)
    number = fields.whole("number", 0, NUMBER_MAX)
    owned = fields.texts("owned") if "owned" in asked else None
    answered = fields.whole("answered", 0, NUMBER_MAX, default=0)
    fields.end()
    if owned is not None and len(owned) > PARTITIONS_MAX:
        raise BadRequest(f"owned must name at most {PARTITIONS_MAX} partitions; got {len(owned)}")
    return Pulse(member, number, generation, listing, owned, answered)
