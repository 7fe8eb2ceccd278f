"""Three members of etcd, through its JSON gateway, always aimed at the leader: its best case."""

import asyncio
import base64
import json
import random
from pathlib import Path

from bench import documents
from bench.cluster import ATTEMPT_LIMIT, Batch, Cluster, Failed, Member, Target

# etcd refuses more than 128 operations in one transaction by default.
TXN_OPERATIONS = 100
STREAMS = 6


def encode(text: str) -> str:
    """Return `text` as the gateway wants keys and values."""
    return base64.b64encode(text.encode()).decode()


class Etcd(Cluster):
    """etcd with its defaults, fresh data, on ports of our own."""

    def __init__(self, program: str, ports: list[int], directory: Path, count: int) -> None:
        directory.mkdir()
        self.links = documents.links(count)
        self.leader = ""
        everyone = ",".join(f"e{port}=http://127.0.0.1:{port + 1}" for port in ports)
        self.members = [
            Member(
                name=f"e{port}",
                address=f"127.0.0.1:{port}",
                command=_command(program, port, directory, everyone),
                log=directory / f"e{port}.log",
            )
            for port in ports
        ]

    async def is_ready(self, member: Member) -> bool:
        """Ask whether the member knows a leader and can read through it."""
        return await self.succeeds("GET", f"http://{member.address}/health")

    async def prepare(self) -> None:
        """Put every key once."""
        self.leader = (await self._leader()).address
        for batch in _batches(self.leader, self.links, seed=1):
            await self.ask("POST", batch.url, data=batch.payload)

    async def _leader(self) -> Member:
        """Return the member that calls itself leader, with others believing it."""
        for _ in range(400):
            for member in self.members:
                url = f"http://{member.address}/v3/maintenance/status"
                if member.process is None:
                    continue
                status = await self.ask("POST", url, json={})
                header = status["header"]
                assert isinstance(header, dict)
                if status.get("leader") == header["member_id"]:
                    return member
            await asyncio.sleep(0.05)
        message = "etcd found no leader in 20 s"
        raise Failed(message)

    def ways(self) -> list[tuple[str, list[Target], list[Target]]]:
        """At the leader; through a follower is only slower."""
        return [("", self._puts(), self._gets())]

    def _puts(self) -> list[Target]:
        """POST /v3/kv/put at the leader. Twelve characters of the base64 text are the number."""
        tails = [f'{encode(documents.value(0, tail))[12:]}"}}' for tail in documents.tails(2)]
        targets = []
        for links in _thirds(self.links):
            heads = []
            for link in links:
                head = f'{{"key":"{encode(link)}","value":"'
                length = len(head) + documents.NUMBER_DIGITS + len(tails[0])
                heads.append(documents.request("POST", "/v3/kv/put", head, length))
            targets.append(Target(self.leader, heads, tails))
        return targets

    def _gets(self) -> list[Target]:
        """POST /v3/kv/range at the leader; linearizable unless asked otherwise."""
        targets = []
        for links in _thirds(self.links):
            bodies = [f'{{"key":"{encode(link)}"}}' for link in links]
            heads = [documents.request("POST", "/v3/kv/range", b, len(b)) for b in bodies]
            targets.append(Target(self.leader, heads))
        return targets

    def batches(self, documents_count: int) -> list[list[Batch]]:
        """Transactions of puts, at the leader."""
        links = documents.links(documents_count, "bulk")
        batches = _batches(self.leader, links, seed=3)
        return [batches[stream::STREAMS] for stream in range(STREAMS)]

    def accepted(self, batch: Batch, answer: bytes) -> int:
        """Count all documents or none, as a transaction is."""
        return batch.documents if json.loads(answer).get("succeeded") else 0

    async def victim(self, turn: int) -> tuple[Member, list[str]]:
        """Return the leader, which owns every key."""
        return await self._leader(), random.Random(turn).sample(self.links, 16)

    async def write(self, link: str, survivor: Member, number: int) -> bool:
        """Put one key; a follower forwards to the leader it knows."""
        body = {"key": encode(link), "value": encode(str(number))}
        url = f"http://{survivor.address}/v3/kv/put"
        return await self.succeeds("POST", url, json=body, timeout=ATTEMPT_LIMIT)

    async def settled(self) -> None:
        """Wait until all members serve and one of them leads."""
        for member in self.members:
            await self.until_ready(member)
        self.leader = (await self._leader()).address


def _command(program: str, port: int, directory: Path, everyone: str) -> list[str]:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}"
    options = {
        "name": f"e{port}",
        "data-dir": str(directory / f"e{port}"),
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": everyone,
        "initial-cluster-state": "new",
        "initial-cluster-token": "bench",
        "logger": "zap",
        "log-level": "error",
    }
    return [program, *(f"--{name}={value}" for name, value in options.items())]


def _batches(leader: str, links: list[str], seed: int) -> list[Batch]:
    tails = documents.tails(seed)
    found = []
    for start in range(0, len(links), TXN_OPERATIONS):
        chunk = links[start : start + TXN_OPERATIONS]
        puts = [
            {
                "requestPut": {
                    "key": encode(link),
                    "value": encode(documents.value(number, tails[number % len(tails)])),
                }
            }
            for number, link in enumerate(chunk, start)
        ]
        payload = json.dumps({"success": puts}).encode()
        found.append(Batch(f"http://{leader}/v3/kv/txn", payload, len(chunk)))
    return found


def _thirds(links: list[str]) -> list[list[str]]:
    return [links[part::3] for part in range(3)]
