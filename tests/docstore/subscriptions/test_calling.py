"""Challenges, deliveries and the rest of a node do not block each other."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aiohttp import web
from cryptography.fernet import Fernet, MultiFernet

from docstore.maintenance.webhooks.calling import (
    CALLS_AT_ONCE,
    CHALLENGES_AT_ONCE,
    CHALLENGES_WAITING,
    Caller,
    TooManyChallenges,
)
from docstore.subscriptions.sealing import SecretSeal
from docstore.subscriptions.settings import callback_settings
from docstore.subscriptions.signing import secret_of
from docstore.subscriptions.targets import Targets

SECRET = secret_of(bytes(32))
LINK = "/core/subscriptions/1"


class Slow:
    """A receiver that delays answers to challenges until `may` is set."""

    def __init__(self) -> None:
        self.url = ""
        self.may = asyncio.Event()
        self.under_way = self.most_under_way = 0
        self.changed = asyncio.Event()

    async def take(self, request: web.BaseRequest) -> web.StreamResponse:
        said = await request.json()
        if said["type"] != "challenge":
            return web.Response(status=204)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        self.changed.set()
        await self.may.wait()
        self.under_way -= 1
        return web.json_response({"challenge": said["challenge"]})

    async def until_under_way(self, calls: int) -> None:
        async with asyncio.timeout(20):
            while self.under_way < calls:
                await self.changed.wait()
                self.changed.clear()


@pytest.fixture
async def slow() -> AsyncIterator[Slow]:
    slow = Slow()
    runner = web.ServerRunner(web.Server(slow.take))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    slow.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    yield slow
    slow.may.set()
    await runner.cleanup()


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    said = {"callback_hosts": "http://*", "callback_networks": "127.0.0.0/8"}
    targets = Targets(callback_settings({**said, "callback_key_file": "k"}))
    caller = Caller(targets, SecretSeal(MultiFernet([Fernet(Fernet.generate_key())])))
    yield caller
    await caller.stop()


async def test_challenges_are_bounded_and_delay_no_delivery(caller: Caller, slow: Slow) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(CHALLENGES_AT_ONCE + CHALLENGES_WAITING):
            group.create_task(caller.prove(LINK, slow.url, SECRET))
        await slow.until_under_way(CHALLENGES_AT_ONCE)
        with pytest.raises(TooManyChallenges) as refused:
            await caller.prove(LINK, slow.url, SECRET)
        assert refused.value.status == 503
        sealed = caller.seal.seal(LINK, SECRET)
        assert (await caller.deliver(LINK, slow.url, sealed, b'{"type": "changes"}')).status == 204
        slow.may.set()
    assert slow.most_under_way == CHALLENGES_AT_ONCE
    await caller.prove(LINK, slow.url, SECRET)  # There is room again.


async def test_a_silent_name_server_blocks_no_thread_of_others(
    caller: Caller, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    may, asked = threading.Event(), threading.Event()

    def look_up(host: str, port: int, **_: Any) -> list[Any]:
        asked.set()
        may.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))]

    url = slow.url.replace("127.0.0.1", "hook.example")
    sealed = caller.seal.seal(LINK, SECRET)
    slow.may.set()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    try:
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            calls = [
                group.create_task(caller.deliver(LINK, url, sealed, b'{"type": "changes"}'))
                for _ in range(CALLS_AT_ONCE)
            ]
            assert await asyncio.to_thread(asked.wait, 20)  # In the only thread of other users.
            may.set()
    finally:
        may.set()
    assert {call.result().status for call in calls} == {204}
