"""The group under torture: real processes, a proxy on each directed link, switches for each."""

import asyncio
import contextlib
import json
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import aiohttp

from docstore.client.local import LocalCluster, LocalNode
from tests.chaos.mix import Pause
from tests.chaos.proxy import Link, Proxy
from tests.docstore.watching import metrics, page_of

GROUP = "/core/node-groups/default"
SLOTS, REPAIR_S = "32", 5.0
"""Rows are verified far more often than by default, so that damage is found within a chapter."""
RECOVERY_S = 60.0
RETENTION_S, RETRIES_S = 150.0, 60.0
"""Longer than a chapter, whose documents are read back with all their versions."""

WELL = "all serve, no change is under way, no slot is damaged"


def port_of(node: LocalNode) -> int:
    """Return the port at which clients reach a node."""
    return int(node.url.rpartition(":")[2])


class Arena:
    """Nodes and the links between them. Everything blocking runs in threads."""

    def __init__(
        self,
        directory: Path,
        size: int,
        spares: int,
        rng: random.Random,
        copies: str = "3",
        repair_s: float = REPAIR_S,
        slots: str = SLOTS,
        certs: Path | None = None,
    ) -> None:
        """copies: the replication factor, or all. repair_s: see REPAIR_S. certs: for TLS."""
        self.rng = rng
        self.directory = directory
        settings = (
            "--slots", slots, "--repair-interval-s", str(repair_s), "--replication-factor", copies,
        )  # fmt: skip
        self.cluster = LocalCluster(size, directory, settings, certs=certs)
        self.retention_s = RETENTION_S
        self.retries_s = RETRIES_S
        self.members = list(self.cluster.nodes)
        """Nodes that belong to the group now."""
        self.spares = [self.cluster.prepare() for _ in range(spares)]
        self.pauses: list[Pause] = []
        self._proxies: dict[tuple[str, str], Proxy] = {}
        self._switches: dict[str, dict[str, Any]] = {}

    async def start(self) -> None:
        """Start proxies and members; return when all serve."""
        nodes = self.cluster.nodes
        for one, other in permutations(nodes, 2):
            proxy = self._proxies[one.name, other.name] = Proxy(port_of(other) + 1, self.rng)
            await proxy.start()
        for node in nodes:
            others = [other for other in nodes if other is not node]
            dial = {str(port_of(o) + 1): self._proxies[node.name, o.name].port for o in others}
            self._switches[node.name] = {
                "dial": dial, "retention_s": self.retention_s, "retries_s": self.retries_s
            }  # fmt: skip
            self.switch(node)
            node.command = ("-m", "tests.chaos.node", str(self._control(node)))
        for node in self.members:
            self.cluster.start(node)
        await self.wait(self._all_ready, "all serve")

    async def stop(self) -> None:
        """Stop all processes and proxies."""
        await asyncio.to_thread(self.cluster.stop)
        for proxy in self._proxies.values():
            await proxy.stop()

    def _control(self, node: LocalNode) -> Path:
        return self.directory / f"{node.name}.switches"

    def switch(self, node: LocalNode, **settings: Any) -> None:
        """Set switches of a node; None takes one away."""
        switches = self._switches[node.name]
        switches.update(settings)
        kept = {name: value for name, value in switches.items() if value is not None}
        path = self._control(node)
        path.with_suffix(".new").write_text(json.dumps(kept))
        path.with_suffix(".new").rename(path)

    # Links

    def link(self, one: LocalNode, other: LocalNode) -> Link:
        """Return the state of the link from one to the other."""
        return self._proxies[one.name, other.name].link

    def cut(self, pairs: list[tuple[LocalNode, LocalNode]], *, gossip: bool) -> None:
        """Cut directed links, and membership's packets along them."""
        for one, other in pairs:
            proxy = self._proxies[one.name, other.name]
            proxy.link.cut = True
            proxy.break_all()
            if gossip:
                deaf = self._switches[one.name].get("deaf") or []
                self.switch(one, deaf=[*deaf, port_of(other) + 2])

    def mend_links(self) -> None:
        """Repair all links."""
        for proxy in self._proxies.values():
            proxy.link.clear()
        for node in self.cluster.nodes:
            self.switch(node, deaf=None, gossip_loss=None)

    def mend(self) -> None:
        """Repair all links, and turn all switches off."""
        self.mend_links()
        for node in self.cluster.nodes:
            self.switch(node, clock_s=None, kill_at=None)

    # Nodes

    def running(self) -> list[LocalNode]:
        """Return the members whose processes run."""
        return [node for node in self.members if node.process is not None]

    async def kill(self, node: LocalNode) -> None:
        """Kill a node; at once, so that no other fault finds it ended by itself."""
        if node.process is not None:
            self.cluster.kill(node)

    async def pause(self, node: LocalNode, seconds: float) -> None:
        """Stop a process that runs for a while; it does not notice."""
        process = node.process
        if process is None:
            return
        pause = Pause(node.name, time.monotonic())
        self.pauses.append(pause)
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        process.send_signal(signal.SIGCONT)
        pause.ended = time.monotonic()

    def start_node(self, node: LocalNode) -> None:
        """Start a member that is down; one that has left the group meanwhile stays down."""
        if node.process is None and node in self.members:
            self.cluster.start(node)

    async def replace_disk(self, node: LocalNode) -> None:
        """Empty a member's disk, start it, and replace the old disk by the new one."""
        await self.kill(node)
        empty(node.data)
        node.flags = ("--standby",)
        self.start_node(node)
        await self.wait(lambda: "storeId" in page_of(f"{node.url}/core/management"), "it waits")
        me = await asyncio.to_thread(page_of, f"{node.url}/core/management")
        member = {"id": node.name, "storeId": me["storeId"], "address": node.url}
        request = {"kind": "ReplaceMemberRequest", "id": node.name, "member": member}
        await self.change(request, avoid=node)

    async def change(self, request: dict[str, Any], *, avoid: LocalNode | None = None) -> None:
        """Ask members for a change until one has taken it."""
        wanted, last = request.get("member", {}).get("storeId"), "no member answers"
        connector = aiohttp.TCPConnector(ssl=self.cluster.ssl or True)
        timeout = aiohttp.ClientTimeout(total=10)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            for _ in range(60):
                node = self.rng.choice([n for n in self.members if n is not avoid] or self.members)
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    async with session.patch(node.url + GROUP, json=request) as answer:
                        last = await answer.text()
                        taken = answer.status in (202, 404) or "already-a-member" in last
                        if taken or (answer.status == 409 and wanted and wanted in last):
                            return
                await asyncio.sleep(0.5)  # The pause between two attempts.
        raise TimeoutError(f"no member took {request}: {last}")

    # Recovery

    async def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Return when the condition holds. Raises TimeoutError."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + RECOVERY_S
        while not await asyncio.to_thread(condition):
            if loop.time() > deadline:
                raise TimeoutError(f"not in {RECOVERY_S:.0f} s: {what}")
            await asyncio.sleep(0.1)  # Checked again, until the deadline.

    async def recover(self) -> None:
        """Repair all, start all, replace the disks of nodes that ended themselves; wait."""
        self.mend()
        for node in self.members:
            if node.process is not None and node.process.poll() is not None:
                node.process = None
            self.start_node(node)
        for _ in range(4):
            await self.wait(lambda: self._all_whole() or bool(self._ended()), WELL)
            broken = self._ended()
            if not broken:
                return
            for node in broken:
                # 74: this disk cannot be trusted. An operator replaces it:
                node.process = None
                await self.replace_disk(node)
        raise TimeoutError(f"not after four replacements: {WELL}")

    async def scrubbed(self, node: LocalNode) -> None:
        """Return when a node has verified every row that it holds, or has ended."""

        def passes() -> float:
            try:
                return metrics(node).get("docstore_repair_passes_total", 0.0)
            except OSError:
                return 0.0

        before = await asyncio.to_thread(passes)
        # The pass under way may have been past the damage already.
        await self.wait(lambda: bool(self._ended()) or passes() >= before + 2, "it is scrubbed")

    def _ended(self) -> list[LocalNode]:
        return [n for n in self.members if n.process is not None and n.process.poll() is not None]

    def _all_ready(self) -> bool:
        pages = [page_of(f"{node.url}/health/ready") for node in self.members]
        return all(page.get("ready") is True for page in pages)

    def _all_whole(self) -> bool:
        wanted = sorted(node.name for node in self.members)
        for node in self.members:
            group = page_of(f"{node.url}{GROUP}").get("configuration", {})
            names = sorted(each["id"] for each in group.get("members", []))
            if group.get("stage") != "stable" or names != wanted:
                return False
            slots = page_of(f"{node.url}/core/management").get("slots", {"faulty": 1})
            if slots["faulty"]:
                return False
        return self._all_ready()


def empty(data: Path) -> None:
    """Remove everything from a data directory but the log of the process."""
    for entry in data.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != "log.txt":
            entry.unlink()


def put_back(copy: Path, data: Path) -> None:
    """Replace the content of a data directory by that of a copy."""
    empty(data)
    shutil.copytree(copy, data, ignore=shutil.ignore_patterns("log.txt"), dirs_exist_ok=True)


def mount_small_disk(path: Path, size: str) -> bool:
    """Mount a small file system at a data directory; return False where that is not possible."""
    path.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def unmount(path: Path) -> None:
    """Unmount it."""
    subprocess.run(["umount", "-l", str(path)], capture_output=True, check=False)
