"""Real nodes on loopback: started, killed, paused, restarted, each by its own process id."""

import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import aiohttp

POLL_S = 0.02


@dataclass(slots=True)
class Process:
    """One node: its name, where it listens, where its data is, and the process if it runs."""

    name: str
    port: int
    data: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return where clients reach it."""
        return f"http://127.0.0.1:{self.port}"


def free_ports(count: int) -> list[int]:
    """Return ports p such that p, p + 1 and p + 2 are free right now."""
    found: list[int] = []
    port = 20_000 + (id(found) // 64) % 20_000
    while len(found) < count:
        port += 10
        with contextlib.ExitStack() as stack:
            try:
                for offset in range(3):
                    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                        probe = stack.enter_context(socket.socket(socket.AF_INET, kind))
                        probe.bind(("127.0.0.1", port + offset))
            except OSError:
                continue
        found.append(port)
    return found


class Cluster:
    """A group of nodes under one directory."""

    def __init__(self, directory: Path, size: int = 3, *flags: str) -> None:
        ports = free_ports(size)
        self.nodes = [
            Process(f"n{i + 1}", port, directory / f"n{i + 1}") for i, port in enumerate(ports)
        ]
        self._bootstrap = ",".join(f"{node.name}={node.url}" for node in self.nodes)
        self._flags = flags

    def start(self, node: Process) -> None:
        """Start one node; it joins the others by itself."""
        assert node.process is None
        node.data.mkdir(parents=True, exist_ok=True)
        with (node.data / "log.txt").open("ab") as log:
            node.process = subprocess.Popen(
                [
                    sys.executable, "-m", "docstore", "serve", "--data", str(node.data),
                    "--listen", f"127.0.0.1:{node.port}", "--node-id", node.name,
                    "--bootstrap", self._bootstrap, *self._flags,
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def kill(self, node: Process) -> None:
        """End a node as a power cut of its process would."""
        assert node.process is not None
        node.process.kill()
        node.process.wait()
        node.process = None

    def pause(self, node: Process) -> None:
        """Stop a node where it is."""
        assert node.process is not None
        node.process.send_signal(signal.SIGSTOP)

    def resume(self, node: Process) -> None:
        """Let it go on as if nothing had been."""
        assert node.process is not None
        node.process.send_signal(signal.SIGCONT)

    async def ready(self, session: aiohttp.ClientSession, timeout_s: float = 30.0) -> None:
        """Return when all running nodes are ready; raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            for node in self.nodes:
                while node.process is not None and not await self._is_ready(session, node):
                    await asyncio.sleep(POLL_S)

    async def _is_ready(self, session: aiohttp.ClientSession, node: Process) -> bool:
        try:
            async with session.get(f"{node.url}/health/ready") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    def stop(self) -> None:
        """Stop every process that was started."""
        for node in self.nodes:
            if node.process is not None:
                node.process.send_signal(signal.SIGCONT)
                self.kill(node)
