"""`Prefer: wait=n` on a GET with If-None-Match: held until there is another version."""

import asyncio

from aiohttp import web

from docstore.errors import BadRequest, Unavailable
from docstore.http import headers
from docstore.http.backend import Backend

WAIT_S_MAX = 300
WAIT_AT_ONCE_S = 20.0
"""For which an owner holds a question: who asked may have gone meanwhile."""
ANSWER_S = 1.0
"""Time for the answer of who has waited to come back from the owner."""

NOT_HERE = frozenset({"stopping", "too-many-waiting"})


async def is_changed(backend: Backend, request: web.BaseRequest, link: str) -> bool:
    """Hold a client that has the present version; say whether there is another one in time.

    False at once for a client that does not want to wait. Raises BadRequest, Unavailable.
    """
    wait = headers.preference(request, "wait")
    if wait is None:
        return False
    wait_s = headers.whole_number(wait, "Prefer: wait", 1, WAIT_S_MAX)
    tags = headers.tags(
        headers.listed(request, "If-None-Match") or "", "If-None-Match", strong=False
    )
    if isinstance(tags, str) or len(tags) != 1:
        raise BadRequest("a wait goes on from the one version that If-None-Match names")
    loop = asyncio.get_running_loop()
    until = loop.time() + wait_s
    while True:
        once_s = min(until - loop.time(), WAIT_AT_ONCE_S)
        asked = (*tags[0], int(once_s * 1000))
        told = await backend.sessions.call(link, "wait", asked, once_s + ANSWER_S)
        if told.code in NOT_HERE:
            raise Unavailable(told.detail)
        if told.result is True or loop.time() >= until or request.transport is None:
            return told.result is True
