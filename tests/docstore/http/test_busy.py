"""A busy node does not close a connection for silence in a time when it could not read."""

import asyncio
import time

from docstore.model.limits import Limits
from tests.docstore.http.wires import PUT, serving

CLIENTS, BUSY_S, PATIENCE_S = 20, 0.3, 0.25
HASTY = Limits(first_request_timeout_s=PATIENCE_S)


async def test_a_new_connection_to_a_busy_node_is_not_reset() -> None:
    async with serving(HASTY) as served:

        async def ask(number: int) -> bytes:
            async with served.wire() as wire:
                while len(served.connections) < CLIENTS and not busy.is_set():
                    await asyncio.sleep(0)
                if not busy.is_set():
                    busy.set()
                    until = time.monotonic() + BUSY_S
                    while time.monotonic() < until:  # Block the loop.
                        pass
                await asyncio.sleep(0.001)
                return await wire.ask(PUT.replace(b"/t/a", b"/t/%d" % number))

        busy = asyncio.Event()
        answers = await asyncio.gather(*map(ask, range(CLIENTS)))
        assert [each[:12] for each in answers] == [b"HTTP/1.1 201"] * CLIENTS
        async with served.wire() as wire:
            assert await wire.is_closed()  # It does after a silence in which it could read.
