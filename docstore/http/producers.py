"""`POST /core/producers`: the next epoch of an id, by which a producer fences its predecessor.

The epoch is in a document of level 3 that is changed by conditional updates only. An update of
unknown outcome only skips an epoch.
"""

import asyncio
import re

from aiohttp import web

from docstore.errors import BadRequest, Conflict, NoQuorum, Unavailable
from docstore.http import bodies, headers
from docstore.http.authority import authority_of
from docstore.http.backend import Backend
from docstore.http.reply import Reply
from docstore.http.representation import page_reply
from docstore.model import json
from docstore.model.operation import Answer, Conditions, Operation
from docstore.model.settings import quoted
from docstore.services.registry import PRODUCERS

AGAIN_S = 0.02
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:@-]{0,127}\Z")


async def next_epoch(backend: Backend, request: web.BaseRequest, body: bytes) -> Reply:
    """Answer with the id and an epoch of its own. Raises BadRequest, Unavailable."""
    media = headers.accepted_media(request)
    asked = json.parse_object(
        bodies.json_bytes(body, headers.content_media(request, headers.BODIES))
    )
    name = asked.get("id")
    if not isinstance(name, str) or not _ID.match(name):
        raise BadRequest(f"id must be 1 to 128 letters, digits and . _ : @ -; got {quoted(name)}")
    if len(asked) > 1:
        raise BadRequest("the body must have no member but `id`")
    link = f"{PRODUCERS.path}/{name}"
    authority_of(request).insist("PUT", link)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + headers.timeout_s(request)
    while True:
        left_s = deadline - loop.time()
        if left_s <= 0:
            raise Unavailable("timed out before the epoch was raised: retry")
        found = await backend.submit(Operation(verb="GET", link=link), left_s)
        epoch = _next_epoch(found)
        answer = await backend.submit(_raise(link, found, epoch), left_s)
        # A recreated document continues its versions: an epoch above them grows as well.
        if answer.is_success and answer.row is not None and answer.row.version < epoch:
            return page_reply({"id": name, "epoch": epoch}, media)
        if answer.status in (400, 422):
            raise Conflict(answer.detail)
        if answer.code == NoQuorum.code:
            raise NoQuorum(answer.detail)
        await asyncio.sleep(AGAIN_S)


def _next_epoch(found: Answer) -> int:
    if found.row is None or not found.is_success:
        return 1
    return max(int(json.load(found.row.state).get("epoch", 0)) + 1, found.row.version + 2)


def _raise(link: str, found: Answer, epoch: int) -> Operation:
    state = {"epoch": epoch}
    if found.row is None or not found.is_success:
        conditions = Conditions(none_match="*")
    else:
        conditions = Conditions(match=[[found.row.epoch, found.row.version]])
    return Operation(
        verb="PUT",
        link=link,
        body=json.dump(state),
        signature=json.signature(state),
        conditions=conditions,
        creates=True,
    )
