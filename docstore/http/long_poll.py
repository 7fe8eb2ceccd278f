"""Bound the number of waiting requests, and end them when their clients disconnect.

A GET with `Prefer: wait=n` and If-None-Match waits until the version changes.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from docstore.errors import BadRequest, Unavailable
from docstore.http import headers
from docstore.http.backend import Backend
from docstore.http.completion import WAITS
from docstore.http.connection import Connection

WAITING_MAX = 4_096
"""Maximum number of waiting requests on a node, streams of events included."""
WAIT_S_MAX = 300
WAIT_AT_ONCE_S = 20.0
"""Maximum seconds for which an owner holds a question: the asking node may have crashed."""
ANSWER_S = 1.0
"""Seconds for the owner's answer to arrive after the wait."""

NOT_HERE = frozenset({"stopping", "too-many-waiting"})


class TooManyWait(Unavailable):
    """The maximum number of requests waits at this node."""

    code = "too-many-waiting"


@contextmanager
def waiting(request: web.BaseRequest) -> Iterator[None]:
    """Count a waiting request, and cancel it if its client disconnects. Raises TooManyWait."""
    connection = request.protocol
    assert isinstance(connection, Connection)
    if connection.transport is None:
        raise asyncio.CancelledError
    metrics = connection.metrics
    if metrics.waiting >= WAITING_MAX:
        raise TooManyWait(
            f"{WAITING_MAX} requests wait at this node: retry later, or at another node"
        )
    metrics.waiting += 1
    request[WAITS] = True
    connection.waits = True
    try:
        yield
    finally:
        metrics.waiting -= 1
        connection.waits = False


async def is_changed(backend: Backend, request: web.BaseRequest, link: str) -> bool:
    """Wait until the client's version is outdated; return whether that happened in time.

    Returns False at once if the client does not want to wait. Raises BadRequest, Unavailable.
    """
    wait = headers.preference(request, "wait")
    if wait is None:
        return False
    wait_s = headers.whole_number(wait, "Prefer: wait", 1, WAIT_S_MAX)
    tags = headers.tags(
        headers.listed(request, "If-None-Match") or "", "If-None-Match", strong=False
    )
    if isinstance(tags, str) or len(tags) != 1:
        raise BadRequest("Prefer: wait must come with an If-None-Match that names one version")
    loop = asyncio.get_running_loop()
    until = loop.time() + wait_s
    while True:
        once_s = min(until - loop.time(), WAIT_AT_ONCE_S)
        asked = (*tags[0], int(once_s * 1000))
        with waiting(request):
            told = await backend.inside().session_backend.call(
                link, "wait", asked, once_s + ANSWER_S
            )
        if told.code in NOT_HERE:
            raise Unavailable(told.detail)
        if told.result is True or loop.time() >= until:
            return told.result is True
