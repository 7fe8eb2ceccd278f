"""Comparison of nodes' decisions with the answers to processes, in true time.

The checks are those of `tests/sim/sessions_invariants.py`. This module feeds them from real parts:
decided rows from the logs of nodes, and requests and answers from the wire.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Self
from unittest.mock import patch

import aiohttp
import orjson

from docstore.client import Client
from docstore.client.leases import LEASES
from docstore.client.requests import session
from docstore.documents.core import Core
from docstore.documents.log import SlotLog
from docstore.documents.outbox import Outbox
from docstore.services.lock_queue import CAMPAIGNS, RESIGNS
from tests.sim.actors import Sent
from tests.sim.invariants import Violation
from tests.sim.sessions_invariants import SessionInvariants

PATIENCE_S = 5.0
PROVEN = ("Confirmed", "Changed")

_begin: Callable[..., None] = Core.__init__
_publish: Callable[..., None] = Outbox.publish


class Said(NamedTuple):
    """A request, and the true time at which it is sent."""

    method: str
    path: str
    body: Mapping[str, Any]
    at: float


class Witness:
    """Learns of all decisions and answers at once, as no part of the system can."""

    def __init__(self, run: Any, session_s: float) -> None:
        """session_s: session of members of roles."""
        self.of = SessionInvariants(run.loop)
        self._run = run
        self._session_s = session_s
        self._rows: dict[int, list[Any]] = {}
        """Slot -> its decided rows, in order."""
        self._asked: dict[str, float] = {}
        """Lease -> when it was requested first."""
        self._ttl_s: dict[str, float] = {}
        self._leases: dict[tuple[str, str], str] = {}
        """(link of a lock or an election, candidate) -> the lease under which it wants its turn."""

    def check(self, what: Callable[..., None], *about: Any) -> None:
        """Run a check; the first violation is the problem of the run."""
        problems = self._run.outcome.problems
        try:
            what(*about)
        except Violation as error:
            if not problems:
                problems.append(f"{self._run.loop.now:.3f}: {error}")

    # Nodes

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note each row at the moment at which a node decides it."""
        nodes: dict[Outbox, str] = {}

        def begin(core: Core, me: str, *arguments: Any, **named: Any) -> None:
            _begin(core, me, *arguments, **named)
            nodes[core.outbox] = me

        def publish(outbox: Outbox, log: SlotLog, after: int, until: int) -> None:
            _publish(outbox, log, after, until)
            self._decided(nodes[outbox], log, until)

        with patch.object(Core, "__init__", begin), patch.object(Outbox, "publish", publish):
            yield

    def _decided(self, node: str, log: SlotLog, until: int) -> None:
        rows = self._rows.setdefault(log.slot, [])
        for n in range(len(rows) + 1, until + 1):
            row = log.pending.get(n) or self._stored(node, log.slot, n)
            rows.append(row)
            self.check(self.of.decided, row)

    def _stored(self, node: str, slot: int, n: int) -> Any:
        """Return a row that was decided before and not published: its owner has ended."""
        host = next(each for each in self._run.hosts if each.name == node)
        return host.store.row(slot, n)

    # Clients

    def says(self, method: str, path: str, body: bytes | None) -> Said:
        """Note a request as it is sent."""
        said = Said(method, path, orjson.loads(body) if body else {}, self._run.loop.now)
        scope, _, name = path.rpartition("/")
        if method == "DELETE" and scope == LEASES:
            self.of.given_up(path)
        elif method == "DELETE" and scope.endswith("/members"):
            self.of.of_groups.leaves(name.partition("?")[0])
        elif said.body.get("former"):
            self.of.of_groups.leaves(said.body["former"])
        elif (method, path) == ("POST", LEASES):
            self._asked.setdefault(said.body["documentSelfLink"], said.at)
        elif "candidate" in said.body:
            self._wants(path, said.body)
        return said

    def _wants(self, link: str, body: Mapping[str, Any]) -> None:
        """Note the request of a candidate about its turn."""
        about = (link, body["candidate"])
        if body["kind"] in CAMPAIGNS.values():
            self._leases[about] = body["lease"]
        elif body["kind"] in (*RESIGNS.values(), "TransferRequest"):
            self.of.resigns(*about, self._leases[about])
        if body["kind"] == "TransferRequest":
            self.of.may_transfer(link, body["to"])

    def told(self, said: Said, content: bytes) -> None:
        """Note the answer to a request that has succeeded."""
        if (said.method, said.path) == ("POST", LEASES):
            name = said.body["documentSelfLink"]
            self._ttl_s[name] = said.body["ttlMs"] / 1000
            self._proven(name, self._asked[name])
        elif said.path == f"{LEASES}/keep-alive":
            page = orjson.loads(content)
            for name in page["alive"]:
                self._proven(name, said.at)
            for name in page["gone"]:
                self.check(self.of.told_gone, f"{LEASES}/{name}")
        elif said.body.get("kind") == "HeartbeatRequest":
            self._pulsed(said, orjson.loads(content)["kind"])

    def _pulsed(self, said: Said, kind: str) -> None:
        member, sent = said.path.rpartition("/")[2], Sent(0.0, said.at)
        if kind in PROVEN:
            self.check(self.of.of_groups.pulsed, member, self._session_s, sent)

    def _proven(self, name: str, at: float) -> None:
        link, sent = f"{LEASES}/{name}", Sent(0.0, at)
        self.check(self.of.confirmed, link, self._ttl_s[name], sent)


class SimulatedClient(Client):
    """The product's client, on the simulated network, with a witness."""

    def __init__(self, urls: list[str], witness: Witness) -> None:
        super().__init__(urls, timeout_s=PATIENCE_S)
        self._witness = witness

    async def __aenter__(self) -> Self:
        self._exchanges.session = session(Connector(limit=0))
        return self

    async def request(
        self, method: str, path: str, body: Any = None, headers: Any = None, **more: Any
    ) -> Any:
        said = self._witness.says(method, path, body)
        answer = await super().request(method, path, body, headers, **more)
        self._witness.told(said, answer[2])
        return answer

    async def once(
        self, url: str, method: str, path: str, body: Any = None, headers: Any = None, **more: Any
    ) -> Any:
        said = self._witness.says(method, path, body)
        answer = await super().once(url, method, path, body, headers, **more)
        self._witness.told(said, answer[2])
        return answer

    def forget(self) -> None:
        """Drop all connections unclosed: the process was killed."""
        if self._exchanges.session is not None:
            self._exchanges.session.detach()


class _InOrder(dict[Any, None]):
    """A set that is walked through in the order of arrival, not of addresses: seeds replay."""

    def add(self, each: Any) -> None:
        self[each] = None

    def discard(self, each: Any) -> None:
        self.pop(each, None)

    def remove(self, each: Any) -> None:
        del self[each]


class Connector(aiohttp.BaseConnector):
    """Connects over the simulated network."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._acquired = _InOrder()

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> Any:
        try:
            _, protocol = await self._loop.create_connection(
                self._factory, req.url.host, req.url.port
            )
        except OSError as error:
            raise aiohttp.ClientConnectorError(req.connection_key, error) from error
        return protocol

    def __del__(self, *_: Any) -> None:
        """Do not warn of unclosed connections: the process was killed."""
