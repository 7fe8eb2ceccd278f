"""Line B16: what one agent can take, and what it weighs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

from bench.gossip.figure import Figure
from gossip import Agent, Config, wire
from gossip.messages import Alive, Ping

IMPORT = (
    "import asyncio, time; t = time.perf_counter(); import gossip; print(time.perf_counter() - t)"
)
RSS = (
    "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmRSS')))"
)
BARE = "import asyncio; asyncio.run(asyncio.sleep(0.2)); " + RSS
LOADED = (
    "import asyncio, gossip\n"
    "async def main():\n"
    "    a = gossip.Agent('a', ('127.0.0.1', 0), config=gossip.Config.lan())\n"
    "    await a.start(); await asyncio.sleep(0.2); await a.stop()\n"
    "asyncio.run(main()); " + RSS
)


def _printed(code: str) -> float:
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(ran.stdout)


async def _datagrams_a_second(count: int) -> float:
    agent = Agent("a", ("127.0.0.1", 0), config=Config.lan())
    await agent.start()
    rumours = [
        Alive(f"m{number}", bytes(8), 1, ("127.0.0.1", 1 + number), bytes(32))
        for number in range(6)
    ]
    packet = wire.encode_datagram([Ping(1, "a", "m0"), *rumours])
    begun_s = time.perf_counter()
    for _ in range(count):
        agent._on_datagram(packet, ("127.0.0.1", 1))  # noqa: SLF001 - as the socket does
    took_s = time.perf_counter() - begun_s
    await agent.stop()
    return count / took_s


def b16(seed: int, *, short: bool) -> list[Figure]:
    """Measure this machine's cost of one agent."""
    rate = asyncio.run(_datagrams_a_second(5_000 if short else 50_000))
    imported_ms = 1000 * min(_printed(IMPORT) for _ in range(5))
    bare, loaded = _printed(BARE) / 1024, _printed(LOADED) / 1024
    return [
        Figure("B16", "pings with six rumours handled and acked", round(rate), "/s",
               ">= 15000", rate >= 15_000),
        Figure("B16", "import gossip, beside asyncio", round(imported_ms, 1), "ms", "<= 60",
               imported_ms <= 60),
        Figure("B16", "memory above a bare asyncio process", round(loaded - bare, 1), "MiB",
               "<= 4 (10 members)", loaded - bare <= 4),
    ]  # fmt: skip
