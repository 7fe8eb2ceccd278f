"""Real agents on loopback, for tests that poll with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from gossip import Address, Agent, Config, State

ANYWHERE = ("127.0.0.1", 0)
LOOPBACK = Config.loopback()

Launch = Callable[..., Awaitable[Agent]]


async def until(condition: Callable[[], bool], within_s: float = 30.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.01)


def sees(agent: Agent, name: str) -> State | None:
    return next((m.state for m in agent.members() if m.name == name), None)


@contextlib.asynccontextmanager
async def launching() -> AsyncIterator[Launch]:
    agents: list[Agent] = []

    async def launch(
        name: str, *seeds: Agent, bind: Address = ANYWHERE, config: Config = LOOPBACK, **more: Any
    ) -> Agent:
        addresses = [seed.address for seed in seeds] + more.pop("seeds", [])
        meta = name.encode()
        agent = Agent(
            name, bind, config=config, seeds=addresses, meta=meta, rng=random.Random(name), **more
        )
        agents.append(agent)
        await agent.start()
        return agent

    try:
        yield launch
    finally:
        for agent in agents:
            await agent.stop()
