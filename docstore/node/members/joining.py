"""A node without a group asks to be taken into one, until a member has connected to it.

The node asks over HTTP, since it has no link to a member yet. A successful request only means that
the group has received it. The node believes that it belongs to the group once a member dials it and
shows a configuration with the node's disk (`founding.py`).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from docstore.client import ClientError
from docstore.errors import BadRequest, Conflict
from docstore.model.address import parse_url
from docstore.node.members.lookup import OverHttp

PAUSE_S = 1.0
PATIENCE_S = 15.0
"""Seconds to wait for a member's answer. A member waits for less time, so it can give a reason."""

log = structlog.get_logger("docstore.node.members.joining")


class JoinRequests:
    """Asks members, in the background, to take this node into their group."""

    def __init__(
        self,
        request: Callable[[], dict[str, Any]],
        has_group: Callable[[], bool],
        over_http: OverHttp,
    ) -> None:
        self._request = request
        self._over_http = over_http
        self._has_group = has_group
        self._task: asyncio.Task[None] | None = None

    def start(self, urls: Sequence[str]) -> None:
        """Ask these members in turn until this node belongs to the group."""
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.get_running_loop().create_task(self._ask_all(urls))

    def start_by(self, asked: Mapping[str, Any]) -> None:
        url = asked.get("memberGroupReference")
        if not isinstance(url, str):
            raise BadRequest("`memberGroupReference` must be http(s)://HOST:PORT of a member")
        try:
            parse_url(url)
        except ValueError as error:
            raise BadRequest(f"memberGroupReference: {error}") from None
        if self._has_group():
            raise Conflict("this node already belongs to a group; start a new node with --standby")
        self.start([url.rstrip("/")])

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _ask_all(self, urls: Sequence[str]) -> None:
        said = ""
        while not self._has_group():
            for url in urls:
                why = await self._ask(url)
                if not why:
                    break
                if why != said:
                    log.warning("not taken in yet", member=url, why=why)
                said = why
            await asyncio.sleep(PAUSE_S)

    async def _ask(self, url: str) -> str:
        """Ask one member; return the reason for its refusal, "" on success."""
        try:
            async with self._over_http.by(url, PATIENCE_S) as client:
                await client.json("PATCH", "/core/node-groups/default", self._request())
        except ClientError as error:
            return str(error)
        return ""
