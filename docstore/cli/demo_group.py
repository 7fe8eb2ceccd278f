"""The group that `docstore demo --quick` leaves running: three nodes with sample documents.

Its directory has the data of the nodes and `demo.json`: the ports, and the id of each process. An
id is believed only while the command line of the process names the directory of the node.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from docstore.cli.terminal import CommandFailed
from docstore.client import Client, ClientError, Conflict, LocalCluster
from docstore.client.local import CLAIM
from docstore.model.address import PORT_MAX
from docstore.model.words import count

PORT, APART, SIZE = 8001, 10, 3
"""Port of the first node, ports from one node to the next, number of nodes."""
START_S, STOP_S = 15.0, 5.0
SETTINGS = ("--journal-mb", "16")
"""Settings of each node: 64 MiB of disk instead of 160."""
FACTORY, TOPIC = "/films", "ratings"
FILMS = Path(__file__).with_name("films.json")
IS_LINUX = sys.platform == "linux"
RATINGS = 5
"""Records for each film."""


@dataclass(slots=True)
class DemoGroup:
    """The ports and the process ids of the demo's nodes, as `demo.json` has them."""

    port: int = PORT
    pids: dict[str, int] = field(default_factory=dict)
    is_filled: bool = False
    """Whether the sample documents are stored."""
    kafka: str = ""
    """Addresses for Kafka clients, as their `bootstrap.servers`; "" without docstore[kafka]."""

    @classmethod
    def known(cls) -> Self | None:
        """Return the group that was started last and has not been stopped."""
        try:
            return cls(**json.loads(_record().read_text("utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise CommandFailed(f"{_record()}: {error}; delete {directory()}") from None

    def save(self) -> None:
        _record().write_text(json.dumps(asdict(self)), "utf-8")

    @property
    def ports(self) -> list[int]:
        return [self.port + APART * number for number in range(SIZE)]

    def running(self) -> list[str]:
        return [name for name, pid in self.pids.items() if _is_node(pid, directory() / name)]

    def page(self) -> dict[str, Any]:
        """Return the group as `--json` prints it."""
        urls = [f"http://127.0.0.1:{port}" for port in self.ports]
        return {"urls": urls, "console": f"{urls[0]}/core/ui", "kafka": self.kafka,
                "directory": str(directory()), "pids": self.pids}  # fmt: skip


def directory() -> Path:
    """Return the directory of the demo: in the user's cache, or in that for temporary files."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
    if os.access(cache, os.W_OK):
        return cache.resolve() / "docstore-demo"
    return Path(tempfile.gettempdir()).resolve() / f"docstore-demo-{os.getuid()}"


def _record() -> Path:
    return directory() / "demo.json"


def start(port: int | None) -> tuple[DemoGroup, list[str]]:
    """Start the nodes that do not run; return the group, and the names of those nodes.

    Raises CommandFailed.
    """
    known = DemoGroup.known()
    group = known or DemoGroup(port or PORT)
    if port not in {None, group.port}:
        raise CommandFailed(
            f"the demo runs already, at port {group.port}; stop it first: docstore demo stop"
        )
    alive = group.running()
    for name in [name for name in os.environ if name.startswith("DOCSTORE_")]:
        del os.environ[name]  # Meant for other nodes.
    has_kafka = bool(group.kafka) if known else importlib.util.find_spec("kio") is not None
    cluster = LocalCluster(SIZE, directory(), SETTINGS, ports=group.ports, kafka=has_kafka)
    group.kafka = cluster.kafka if has_kafka else ""
    started = [node for node in cluster.nodes if node.name not in alive]
    _refuse_taken([node.port for node in started])
    try:
        directory().mkdir(mode=0o700, exist_ok=True)
        for node in started:
            cluster.start(node)
            assert node.process is not None
            group.pids[node.name] = node.process.pid
            group.save()
        cluster.wait_ready(START_S)
        if not group.is_filled:
            asyncio.run(fill(cluster.urls))
            group.is_filled = True
            group.save()
    except BaseException as error:
        cluster.stop()
        if known is None:
            shutil.rmtree(directory(), ignore_errors=True)
        if isinstance(error, OSError | RuntimeError | ClientError):
            raise CommandFailed(_in_one_line(error)) from None
        raise
    return group, [node.name for node in started]


def _in_one_line(error: Exception) -> str:
    """Return the first line of an error and the last, which quotes a node's log."""
    lines = str(error).splitlines()
    return ": ".join(dict.fromkeys([lines[0].rstrip(":"), lines[-1]]))


def _refuse_taken(ports: Sequence[int]) -> None:
    """Raise CommandFailed if a port of one of these nodes is taken."""
    if max(ports, default=0) + CLAIM - 1 > PORT_MAX:
        last = PORT_MAX - APART * (SIZE - 1) - CLAIM + 1
        raise CommandFailed(f"--port must be at most {last}; got {ports[0]}")
    for port in (port + offset for port in ports for offset in range(CLAIM)):
        if not is_free(port):
            raise CommandFailed(
                f"port {port} is taken by another program; choose a group of ports of its own:"
                f" docstore demo --quick --port {PORT + 1000}"
            )


def is_free(port: int) -> bool:
    """Say whether a node can listen at a port of the loopback, by TCP and UDP."""
    with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        # Connections of a group that was just stopped linger, and hinder no node.
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            stream.bind(("127.0.0.1", port))
            datagrams.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


async def fill(urls: list[str]) -> None:
    """Store the sample documents, and the records of the sample stream."""
    films = json.loads(FILMS.read_text("utf-8"))
    async with Client(urls) as client:
        await client.declare(FACTORY)
        await asyncio.gather(*(client.put(f"{FACTORY}/{film['id']}", film) for film in films))
        with contextlib.suppress(Conflict):  # An earlier start was interrupted.
            await client.json("POST", "/core/streams", {"name": TOPIC, "partitions": SIZE})
        async with client.producer(TOPIC, id="demo") as producer:
            for number, film in enumerate(films * RATINGS):
                stars = round(film["rating"] / 2) - number * 7 % 3 + 1
                await producer.send(film["id"], {"film": film["title"], "stars": stars})


def said(group: DemoGroup, started: Sequence[str], seconds: float, options: str) -> str:
    """Return what the command prints. options: those that each of the next commands needs."""
    urls, console = group.page()["urls"], group.page()["console"]
    kafka = f"\nKafka clients: {group.kafka}" if group.kafka else ""
    if len(started) == SIZE:
        head = f"three nodes serve after {seconds:.1f} s: {' '.join(urls)}"
    elif started:
        head = f"{' and '.join(started)} serves again after {seconds:.1f} s: {' '.join(urls)}"
    else:
        head = f"the demo runs already: {' '.join(urls)}"
    films = len(json.loads(FILMS.read_text("utf-8")))
    return f"""{head}
{count(films, "document")} in {FACTORY}, {count(films * RATINGS, "record")} in the stream {TOPIC}

Console: {console}{kafka}

Try next:
  docstore ls {FACTORY} --filter "rating gt 8" --order-by year --select title,year{options}
  docstore patch {FACTORY}/solaris '{{"seen": true}}'{options}
  docstore demo kill n3      # kill -9; write on, then start it again: docstore demo --quick

To stop the nodes and delete their data: docstore demo stop"""


def kill(name: str) -> DemoGroup:
    """Kill a node without notice, as a power cut would. Raises CommandFailed."""
    group = DemoGroup.known()
    running = group.running() if group else []
    if group is None or name not in running:
        which = f"those that run: {', '.join(running)}; " if running else ""
        raise CommandFailed(f"no node {name} of the demo runs; {which}start: docstore demo --quick")
    _end([group.pids[name]], [directory() / name], signal.SIGKILL)
    return group


def stop() -> list[str]:
    """Stop all nodes and delete the directory; return the names of the stopped nodes."""
    group = DemoGroup.known()
    names = group.running() if group else []
    if group is not None:
        folders = [directory() / name for name in names]
        _end([group.pids[name] for name in names], folders, signal.SIGTERM)
    shutil.rmtree(directory(), ignore_errors=True)
    return names


def _end(pids: Sequence[int], folders: Sequence[Path], number: signal.Signals) -> None:
    """Signal processes and wait until they have ended; kill those that are slow."""
    left = dict(zip(pids, folders, strict=True))
    deadline = time.monotonic() + STOP_S
    while left:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
                os.kill(pid, signal.SIGCONT)
        while time.monotonic() < deadline and left:
            time.sleep(0.02)
            left = {pid: folder for pid, folder in left.items() if _is_node(pid, folder)}
        number, deadline = signal.SIGKILL, time.monotonic() + STOP_S


def _is_node(pid: int, data: Path) -> bool:
    """Say whether a process is the node with this directory."""
    if IS_LINUX:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return os.fsencode(data) in words
    asked = ["ps", "-o", "command=", "-p", str(pid)]
    found = subprocess.run(asked, capture_output=True, check=False)  # noqa: S603 - words of ours
    return os.fsencode(data) in found.stdout
