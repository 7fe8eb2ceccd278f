"""One node under test: `python -m tests.chaos.node CONTROL serve ...`, with switches.

The product has no such switches: this module puts them in, around the parts that touch the
world. CONTROL is a JSON file that the harness rewrites; it is read every 50 ms.

    dial: port of a peer's links -> port of the proxy that this node is to dial instead
    deaf: gossip ports from and to which no packet gets through
    gossip_loss: share of datagrams that are lost
    clock_s: error of the wall clock
    kill_at: a point of `points.py` at which the process ends itself, as if it were killed
    retention_s: age at which old versions are trimmed, shorter than the product allows
    retries_s: the same for tombstones, if that is longer
    small_memory: caches are a sixteenth of their usual size, and an Idempotency-Key is kept for
        a minute instead of ten
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import time
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import docstore.documents.eventual.arrivals
import docstore.documents.eventual.documents
import docstore.documents.keys
import docstore.http.leases
import docstore.http.reply
import docstore.node.running
import docstore.runtime.stepping
import docstore.storage.sqlite
from docstore.__main__ import main
from docstore.documents.timing import MemoryBounds, ReplicaConfig, Retention
from docstore.runtime.links.peers import PeerLinks
from gossip.transport import Transport
from tests.chaos import points

LOOK_S = 0.05


class Control:
    """The present switches."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._looked_at = -1.0
        self._now: dict[str, Any] = {}

    def get(self, name: str, default: Any) -> Any:
        """Return a switch."""
        now = time.monotonic()
        if now - self._looked_at > LOOK_S:
            self._looked_at = now
            with contextlib.suppress(OSError, ValueError):  # It may be half written.
                self._now = json.loads(self._path.read_text())
        return self._now.get(name, default)


class SkewedTime:
    """Replaces the time module where the node reads the wall clock."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self.clock_gettime = time.clock_gettime
        self.CLOCK_BOOTTIME = time.CLOCK_BOOTTIME

    def time_ns(self) -> int:
        """Return the wall clock, off by what the switch says."""
        return time.time_ns() + int(self._control.get("clock_s", 0) * 1e9)

    def time(self) -> float:
        """Return the same in seconds."""
        return self.time_ns() / 1e9


def configured(shorter: dict[str, Any], **settings: Any) -> ReplicaConfig:
    """Return the protocol's settings, with whole groups of them replaced."""
    return ReplicaConfig(**(settings | shorter))


def put_in(module: ModuleType, name: str, value: Any) -> None:
    """Replace a name in a module; fail if it is gone, since the switch would do nothing."""
    assert hasattr(module, name), f"{module.__name__} has no {name}"
    setattr(module, name, value)


def install(control: Control) -> None:
    """Put the switches in."""
    connect, send = PeerLinks.connect, Transport.send
    open_connection = asyncio.open_connection

    def connect_by_proxy(self: PeerLinks, peer: str, address: tuple[str, int]) -> None:
        port = control.get("dial", {}).get(str(address[1]), address[1])
        connect(self, peer, (address[0], port))

    def send_or_lose(self: Transport, to: Any, datagram: bytes) -> None:
        lost = random.random() < control.get("gossip_loss", 0.0)
        if not lost and to[1] not in control.get("deaf", ()):
            send(self, to, datagram)

    async def open_or_refuse(host: Any, port: Any = None, **more: Any) -> Any:
        if port in control.get("deaf", ()):
            await asyncio.sleep(0.2)
            raise OSError("nothing gets through")
        return await open_connection(host, port, **more)

    PeerLinks.connect = connect_by_proxy  # type: ignore[method-assign]
    Transport.send = send_or_lose  # type: ignore[method-assign]
    asyncio.open_connection = open_or_refuse

    def reached(point: str) -> None:
        if control.get("kill_at", None) == point:
            os.kill(os.getpid(), signal.SIGKILL)

    points.install(reached)
    for module in (docstore.runtime.stepping, docstore.http.leases, docstore.http.reply):
        put_in(module, "time", SkewedTime(control))
    shorter: dict[str, Any] = {}
    retention_s = control.get("retention_s", 0.0)
    if retention_s:
        shorter["retention"] = Retention(
            history_s=retention_s,
            tombstones_s=max(retention_s, control.get("retries_s", 0.0)),
            trim_interval_s=1.0,
        )
    if control.get("small_memory", False):
        smaller = MemoryBounds().cache_bytes_per_slot // 16
        shorter["memory"] = MemoryBounds(cache_bytes_per_slot=smaller)
        docstore.documents.eventual.documents.DOCUMENTS_MAX //= 16
        docstore.documents.eventual.arrivals.RECENT_BYTES //= 16
        docstore.documents.keys.KEY_LIFE_US //= 10
        for role, kib in docstore.storage.sqlite._CACHE_KIB.items():
            docstore.storage.sqlite._CACHE_KIB[role] = kib // 16
    if shorter:
        put_in(docstore.node.running, "ReplicaConfig", partial(configured, shorter))


if __name__ == "__main__":
    install(Control(Path(sys.argv.pop(1))))
    sys.argv[0] = "docstore"
    main()
