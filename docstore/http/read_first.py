"""Updates that depend on the stored version, for clients that need not read it first.

The node reads a version and sends an update on the condition that the version is unchanged. After a
conflict it reads again, so that a client without conditions never sees this condition fail.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from aiohttp import web

from docstore.errors import Unavailable
from docstore.http import headers
from docstore.http.backend import Backend
from docstore.model.document import Row, tag_of
from docstore.model.operation import Answer, Conditions, Operation
from docstore.model.service import LINEARIZABLE


async def updated(
    backend: Backend,
    request: web.BaseRequest,
    link: str,
    update_of: Callable[[Row], Awaitable[Operation]],
) -> Answer:
    """Read a document of level 3 and update it; repeat if another update came in between.

    update_of: returns the update for a version, or raises its refusal. The client's conditions are
    checked against each version read. Returns the answer to a failed read. Raises Unavailable if
    other updates came in between until the time was over.
    """
    said = headers.conditions(request, None) or Conditions()
    key = headers.idempotency_key(request)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + headers.timeout_s(request)
    while (left_s := deadline - loop.time()) > 0:
        found = await backend.submit(Operation(verb="GET", link=link), left_s)
        row = found.row
        if not found.is_success or row is None:
            return found
        update, tag = await update_of(row), tag_of(row, LINEARIZABLE)
        if said.match is not None and not headers.is_current(said.match, tag):
            return Answer(
                412,
                "precondition-failed",
                "If-Match must name the current version: read it, and retry",
                row=row,
            )
        guarded = replace(update, key=key, conditions=said._replace(match=[list(tag)]))
        answer = await backend.submit(guarded, deadline - loop.time())
        is_replaced = answer.row is None or tag_of(answer.row, LINEARIZABLE) != tag
        if answer.status != 412 or not is_replaced:
            return answer
    raise Unavailable(f"{link} was changed by others until the timeout, nothing is done: retry")
