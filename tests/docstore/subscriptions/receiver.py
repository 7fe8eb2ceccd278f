"""A receiver of webhooks: it answers challenges, checks signatures, and keeps all other calls."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

REPLAY_S = 600
"""Older calls are refused, as an eavesdropper may replay them."""


@dataclass
class Receiver:
    """The calls to a receiver. key: that of its secret; b"" to accept any signature."""

    key: bytes = b""
    url: str = ""
    statuses: list[int] = field(default_factory=list)
    """Statuses of the next answers, in this order, before it takes calls again."""
    always: int = 0
    """Status of all answers from now on; 0: it takes calls."""
    challenged: int = 0
    calls: list[Any] = field(default_factory=list)
    """Bodies of the taken calls."""
    ids: list[str] = field(default_factory=list)
    """Ids of all calls, taken or not."""
    forged: int = 0
    under_way: int = 0
    most_under_way: int = 0

    @property
    def changes(self) -> list[dict[str, Any]]:
        """All changes in the order of their arrival."""
        return [each for call in self.calls for each in call["changes"]]

    @property
    def by_document(self) -> dict[str, list[int]]:
        """Link -> its versions in the order of arrival, without duplicates."""
        found: dict[str, list[int]] = {}
        for each in self.changes:
            versions = found.setdefault(each["documentSelfLink"], [])
            if each["documentVersion"] not in versions:
                versions.append(each["documentVersion"])
        return found

    async def take(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a call."""
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            return await self._taken(request)
        finally:
            self.under_way -= 1

    async def _taken(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        said = json.loads(body)
        if self.key and not is_signed(self.key, request, body):
            self.forged += 1
            return web.Response(status=401)
        if said["type"] == "challenge":
            self.challenged += 1
            return web.json_response({"challenge": said["challenge"]})
        self.ids.append(request.headers["webhook-id"])
        status = self.statuses.pop(0) if self.statuses else self.always
        if status:
            return web.Response(status=status)
        self.calls.append(said)
        return web.Response(status=204)

    async def until(self, condition: Any, timeout_s: float = 20.0) -> None:
        """Return once the condition holds."""
        async with asyncio.timeout(timeout_s):
            while not condition():
                await asyncio.sleep(0.02)


def is_signed(key: bytes, request: web.BaseRequest, body: bytes) -> bool:
    """Say whether a sender with the key has signed this request, and recently."""
    name, when = request.headers["webhook-id"], request.headers["webhook-timestamp"]
    code = hmac.new(key, f"{name}.{when}.".encode() + body, hashlib.sha256).digest()
    wanted = f"v1,{base64.b64encode(code).decode()}"
    is_fresh = abs(time.time() - int(when)) < REPLAY_S
    return is_fresh and hmac.compare_digest(wanted, request.headers["webhook-signature"])


@asynccontextmanager
async def receiving(key: bytes = b"") -> AsyncIterator[Receiver]:
    """Yield a receiver that listens on a loopback port."""
    receiver = Receiver(key)
    runner = web.ServerRunner(web.Server(receiver.take))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    try:
        yield receiver
    finally:
        await runner.cleanup()
