"""A group of real nodes on this machine, for examples, the demo and tests.

Several groups may run at the same time, in one process or in many; each gets its own ports.
"""

import contextlib
import inspect
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from docstore.model.tokens import with_token

NOTHING: Mapping[str, str] = {}
POLL_S = 0.05
CLAIM = 4
"""Number of consecutive ports of a node, for HTTP, links, gossip and Kafka clients.

The port after them is bound to claim them.
"""


@dataclass(slots=True)
class LocalNode:
    """One node: its name, its address, its directory, and its process while it runs."""

    name: str
    url: str
    data: Path
    flags: tuple[str, ...] = ()
    """Flags by which the node finds its group."""
    command: tuple[str, ...] = ("-m", "docstore")
    """Arguments of Python that start the node."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        """Return the first port of the node."""
        return int(self.url.rpartition(":")[2])

    @property
    def kafka(self) -> str:
        """Return the address at which Kafka clients reach the node, if the cluster has them."""
        return f"127.0.0.1:{self.port + CLAIM - 1}"

    def last_words(self) -> str:
        """Return the last lines of the node's log."""
        return (self.data / "log.txt").read_text("utf-8", "replace")[-2000:]


class LocalCluster:
    """Nodes n1, n2, ... on free loopback ports, each a process, stopped at the end."""

    def __init__(
        self,
        size: int = 3,
        directory: Path | None = None,
        settings: Sequence[str] = (),
        token: str = "",
        *,
        certs: Path | None = None,
        ports: Sequence[int] = (),
        services: Sequence[str | type] = (),
        environment: Mapping[str, str] = NOTHING,
        kafka: bool = False,
    ) -> None:
        """settings: flags for every node. token: sent to nodes that require one.

        certs: directory in which `docstore certs` has made ca.pem, n1.pem, n2.pem, ...; with it all
        ports use TLS. ports: first port of each node; without them, free ones are chosen. services:
        classes that the nodes run, or their names, such as "bank:Accounts". environment: variables
        of the nodes, added to those of this process. kafka: whether the nodes serve Kafka clients,
        for which docstore[kafka] must be installed.
        """
        self._token = token
        self._settings = tuple(settings)
        self._environment = dict(environment)
        for service in services:
            name, folder = (service, "") if isinstance(service, str) else _named(service)
            self._settings += ("--service", name)
            if folder:
                paths = [folder, (os.environ | self._environment).get("PYTHONPATH", "")]
                self._environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        self._certs = certs
        self._has_kafka = kafka
        self.ssl = ssl.create_default_context(cafile=certs / "ca.pem") if certs else None
        """TLS context for `Client(cluster.urls, ssl=cluster.ssl)`."""
        self._own_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="docstore-"))
        self._claims = contextlib.ExitStack()
        weakref.finalize(self, self._claims.close)  # Only then, as a stopped group may start again.
        self.nodes: list[LocalNode] = []
        for number in range(size):
            self._add_node(*ports[number : number + 1])
        bootstrap = ",".join(f"{node.name}={node.url}" for node in self.nodes)
        for node in self.nodes:
            node.flags = ("--bootstrap", bootstrap)

    @property
    def urls(self) -> list[str]:
        """Return the addresses of all nodes."""
        return [node.url for node in self.nodes]

    @property
    def kafka(self) -> str:
        """Return the `bootstrap.servers` of Kafka clients: the addresses of all nodes."""
        return ",".join(node.kafka for node in self.nodes)

    def __enter__(self) -> Self:
        """Start all nodes and wait until they serve."""
        try:
            for node in self.nodes:
                self.start(node)
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        """Stop all nodes, and delete their directory unless the caller has given it."""
        self.stop()

    def node(self, name: str) -> LocalNode:
        """Return a node by its name."""
        return next(node for node in self.nodes if node.name == name)

    def add(self, *flags: str) -> LocalNode:
        """Start one more node, which asks the others to add it; return it at once."""
        node = self.prepare(*flags)
        self.start(node)
        return node

    def prepare(self, *flags: str) -> LocalNode:
        """Return one more node, which asks the others to add it once it is started."""
        members = ",".join(self.urls)
        node = self._add_node()
        node.flags = ("--join", members, *flags)
        return node

    def _add_node(self, port: int = 0) -> LocalNode:
        name = f"n{len(self.nodes) + 1}"
        if not port:
            port = self._claims.enter_context(claim_ports()).getsockname()[1] - CLAIM
        address = f"127.0.0.1:{port}"
        scheme = "https" if self._certs else "http"
        self.nodes.append(LocalNode(name, f"{scheme}://{address}", self.directory / name))
        return self.nodes[-1]

    def _tls(self, node: LocalNode) -> tuple[str, ...]:
        if self._certs is None:
            return ()
        return (
            "--tls-cert-file", str(self._certs / f"{node.name}.pem"),
            "--tls-key-file", str(self._certs / f"{node.name}-key.pem"),
            "--tls-ca-file", str(self._certs / "ca.pem"),
        )  # fmt: skip

    def _kafka(self, node: LocalNode) -> tuple[str, ...]:
        return ("--kafka-listen", node.kafka) if self._has_kafka else ()

    def start(self, node: LocalNode) -> None:
        """Start a node on its data."""
        assert node.process is None
        node.data.mkdir(parents=True, exist_ok=True)
        with (node.data / "log.txt").open("ab") as log:
            node.process = launch(
                [
                    sys.executable, *node.command, "serve", "--data", str(node.data),
                    "--listen", node.url.partition("://")[2], "--node-id", node.name,
                    *self._tls(node), *self._kafka(node), *node.flags, *self._settings,
                ],
                log,
                {**os.environ, **self._environment},
            )  # fmt: skip

    def kill(self, node: LocalNode) -> None:
        """Kill a node without notice, as a power cut would."""
        assert node.process is not None
        node.process.kill()
        node.process.wait()
        node.process = None

    def wait_ready(self, timeout_s: float = 30.0) -> None:
        """Return when every running node is ready. Raises TimeoutError, RuntimeError."""
        deadline = time.monotonic() + timeout_s
        running = [node for node in self.nodes if node.process is not None]
        waiting = running
        while waiting := [node for node in waiting if not self._is_ready(node)]:
            for node in running:  # Other nodes may be waiting for a node that has exited.
                if node.process is not None and node.process.poll() is not None:
                    raise RuntimeError(f"{node.name} ended by itself:\n{node.last_words()}")
            if time.monotonic() > deadline:
                last = "\n".join(f"{node.name}:\n{node.last_words()}" for node in running)
                names = ", ".join(node.name for node in waiting)
                raise TimeoutError(f"{names}: not ready after {timeout_s} s\n{last}")
            time.sleep(POLL_S)

    def owner_of(self, link: str, *, asked: LocalNode | None = None) -> LocalNode:
        """Return the node that owns a document."""
        url = (asked or self.nodes[0]).url
        request = urllib.request.Request(f"{url}{link}/explain", headers=self._headers())
        with urllib.request.urlopen(request, context=self.ssl) as answer:
            page: dict[str, Any] = json.load(answer)
        return self.node(page["owner"])

    def _headers(self) -> dict[str, str]:
        return dict(with_token({}, self._token) or {})

    def stop(self) -> None:
        """Stop every running node, by SIGTERM and then by SIGKILL."""
        running = [node for node in self.nodes if node.process is not None]
        for node in running:
            assert node.process is not None
            node.process.send_signal(signal.SIGCONT)
            node.process.send_signal(signal.SIGTERM)
        for node in running:
            assert node.process is not None
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.process.wait(5)
            self.kill(node)
        if self._own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _is_ready(self, node: LocalNode) -> bool:
        url = f"{node.url}/health/ready"
        try:
            with urllib.request.urlopen(url, timeout=2, context=self.ssl) as answer:
                return int(answer.status) == 200
        except (urllib.error.URLError, OSError):
            return False


def launch(
    command: Sequence[str], log: IO[bytes], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, with its output in the log."""
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        env=environment,
    )  # fmt: skip


def _named(service: type) -> tuple[str, str]:
    """Return a service as nodes name it, and the folder in which they find its module."""
    module = sys.modules[service.__module__]
    file = Path(inspect.getfile(service)).resolve()
    name = file.stem if module.__name__ == "__main__" else module.__name__
    return f"{name}:{service.__qualname__}", str(file.parents[name.count(".")])


def claim_ports() -> socket.socket:
    """Return a socket bound to a port p + 4 such that p to p + 3 are free, TCP and UDP.

    While it is open, no other caller of this function takes these ports: neither before the node
    starts, nor while the node is down.
    """
    while True:
        port = random.randrange(20_000, 32_000, CLAIM + 1)
        claim = socket.socket()
        try:
            claim.bind(("127.0.0.1", port + CLAIM))
            with contextlib.ExitStack() as stack:
                for offset in range(CLAIM):
                    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                        probe = stack.enter_context(socket.socket(socket.AF_INET, kind))
                        probe.bind(("127.0.0.1", port + offset))
        except OSError:
            claim.close()
        else:
            return claim
