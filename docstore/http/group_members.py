"""Members of groups and roles over HTTP: what a member says, and what its coordinator answers.

Everything may be repeated, and none of it is a write of the client's own: what is not answered has
proven nothing, so a 503 is enough.
"""

from typing import Any

from aiohttp import web

from docstore.errors import BadRequest
from docstore.http import headers
from docstore.http.backend import Backend
from docstore.http.parameters import flag
from docstore.http.problems import problem
from docstore.http.reply import Reply
from docstore.http.representation import page_reply
from docstore.http.waits import waiting
from docstore.model.fields import Fields
from docstore.model.service import Refusal, State
from docstore.services.sessions_groups import (
    CAPACITY_MAX,
    NUMBER_MAX,
    PARTITIONS_MAX,
    TEXT_MAX,
    Member,
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

WAIT_S, WAIT_S_MAX = 20, 60
ANSWER_S = 1.0
"""Time for the answer to who has waited to come back from the coordinator."""


class MemberPages:
    """Answers everything under `.../members`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def serve(self, request: web.BaseRequest, link: str, path: str, asked: State) -> Reply:
        """Answer a request about the members of a group."""
        member = path[len(link) :].split("/")[2:]
        query = request.rel_url.query
        timeout_s = headers.timeout_s(request)
        match request.method:
            case "POST":
                return await self._ask(request, link, _join(asked), timeout_s)
            case "DELETE" if flag(query, "force"):
                return await self._call(request, link, "fence", member[0], timeout_s)
            case "DELETE":
                leave = Leave(member[0], flag(query, "drain"))
                return await self._ask(request, link, leave, timeout_s)
            case "PATCH":
                said = _said(member[0], asked)
                if isinstance(said, Wait):
                    wait = headers.preference(request, "wait") or str(WAIT_S)
                    wait_s = headers.whole_number(wait, "Prefer: wait", 1, WAIT_S_MAX)
                    with waiting(request):
                        return await self._ask(
                            request, link, said, wait_s + ANSWER_S, wait_s * 1000
                        )
                return await self._ask(request, link, said, timeout_s)
        return await self._call(request, link, "show", None, timeout_s)

    async def _ask(
        self, request: web.BaseRequest, link: str, said: Request, timeout_s: float, *more: int
    ) -> Reply:
        """Pass on what a member says."""
        told = await self._tell(link, type(said).__name__.lower(), [*said, *more], timeout_s)
        if told.code:
            return _refused(request, told)
        reply = reply_of(told.result)
        if isinstance(reply, Fenced):
            status, code = (404, "unknown-member") if reply.why == "unknown" else (409, "fenced")
            detail = "you are no member (any more): drop everything, and join under another id"
            return problem(status, code, detail, instance=_instance(request))
        status = 201 if isinstance(reply, Joined) else 200
        return page_reply(shown(reply), headers.accepted_media(request), status=status)

    async def _call(
        self, request: web.BaseRequest, link: str, verb: str, argument: Any, timeout_s: float
    ) -> Reply:
        told = await self._tell(link, verb, argument, timeout_s)
        if told.code:
            return _refused(request, told)
        return page_reply({"members": told.result}, headers.accepted_media(request))

    async def _tell(self, link: str, verb: str, argument: Any, timeout_s: float) -> messages.Reply:
        return await self._backend.sessions.call(link, kind_of(link, verb), argument, timeout_s)


def _refused(request: web.BaseRequest, told: messages.Reply) -> Reply:
    return problem(told.status, told.code, told.detail, instance=_instance(request))


def _instance(request: web.BaseRequest) -> str:
    return request.raw_path.partition("?")[0]


def _join(asked: State) -> Join:
    fields = Fields(asked)
    join = Join(
        fields.text("member"),
        Member(
            instance=fields.text("instance", default=""),
            host=fields.text("host", default=""),
            capacity=fields.whole("capacity", 1, CAPACITY_MAX, default=1),
        ),
        fields.text("former", default=""),
    )
    fields.end()
    if not 0 < len(join.member) <= TEXT_MAX or "/" in join.member or "%" in join.member:
        raise Refusal(f"member is an id of 1 to {TEXT_MAX} characters", status=400)
    return join


def _said(member: str, asked: State) -> Pulse | Wait:
    fields = Fields(asked)
    kind = fields.text("kind")
    if kind not in ("HeartbeatRequest", "WaitRequest"):
        raise BadRequest("a member takes HeartbeatRequest and WaitRequest")
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
        raise BadRequest(f"a group has at most {PARTITIONS_MAX} partitions")
    return Pulse(member, number, generation, listing, owned, answered)
