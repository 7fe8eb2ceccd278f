"""Three nodes of docstore, asked by clients that know the owners, and by clients that do not."""

import asyncio
import hashlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench import documents
from bench.cluster import ATTEMPT_LIMIT, Batch, Cluster, Failed, Member, Target

FACTORY = {
    "path": "/bench",
    "options": ["PERSISTENCE", "REPLICATION", "OWNER_SELECTION", "ENFORCE_QUORUM"],
}
JSON = {"Content-Type": "application/json"}
# The row of what goes through any node, rather than straight to the owner.
ANY = "_any"
BULK_DOCUMENTS = 500
STREAMS_PER_NODE = 2
SETTLE_LIMIT_S = 60.0


class Docstores(Cluster):
    """docstore with its defaults, fresh data, on ports of our own."""

    def __init__(self, ports: list[int], directory: Path, count: int, turn: int) -> None:
        directory.mkdir()
        compile_as_installed()
        self.links = documents.links(count)
        self.turn = turn
        self.table: list[str] = []
        self.members = nodes(ports, directory)

    async def is_ready(self, member: Member) -> bool:
        """Ask the node whether it is ready."""
        return await self.succeeds("GET", f"http://{member.address}/health/ready")

    async def prepare(self) -> None:
        """Declare the factory, put every document once, and learn the owners."""
        first = f"http://{self.members[0].address}"
        await self.ask("POST", f"{first}/core/factories", json=FACTORY)
        tails = documents.tails(1)
        for start in range(0, len(self.links), 64):
            chunk = self.links[start : start + 64]
            await asyncio.gather(
                *(
                    self.ask(
                        "PUT",
                        first + link,
                        data=documents.value(number, tails[number % len(tails)]),
                        headers=JSON,
                    )
                    for number, link in enumerate(chunk, start)
                )
            )
        await self.settled()

    async def _owners(self, member: Member) -> list[str]:
        """Return the owner of each slot as `member` sees it."""
        url = f"http://{member.address}/core/node-selectors/default"
        selector = await self.ask("GET", url)
        return [entry["owner"] for entry in selector["table"]]

    async def settled(self) -> None:
        """Wait until all nodes are ready and agree on the owners; one may own nothing."""
        deadline = time.monotonic() + SETTLE_LIMIT_S
        names = {member.name for member in self.members}
        while time.monotonic() < deadline:
            for member in self.members:
                await self.until_ready(member)
            tables = [await self._owners(member) for member in self.members]
            if set(tables[0]) <= names and all(table == tables[0] for table in tables):
                self.table = tables[0]
                return
            await asyncio.sleep(0.1)
        message = f"the nodes did not agree on the owners within {SETTLE_LIMIT_S:.0f} s"
        raise Failed(message)

    def _owned_by(self, member: Member, links: list[str]) -> list[str]:
        return [link for link in links if self.table[slot(link, len(self.table))] == member.name]

    def ways(self) -> list[tuple[str, list[Target], list[Target]]]:
        """Straight to the owners; and anything through any node, which shows the price of a hop.

        Which node comes first, and so serves the single client, changes from round to round.
        """
        turn = self.turn % len(self.members)
        members = self.members[turn:] + self.members[:turn]
        mixed = [(member, self.links[part::3]) for part, member in enumerate(members)]
        return [("", *self.targets(self.links, members)), (ANY, _puts(mixed), _gets(mixed))]

    def targets(
        self, links: list[str], members: Sequence[Member] = ()
    ) -> tuple[list[Target], list[Target]]:
        """Return targets that replace documents, and that read them, each at its owner."""
        owned = [(each, self._owned_by(each, links)) for each in members or self.members]
        return _puts(owned), _gets(owned)

    def batches(self, documents_count: int, prefix: str = "bulk") -> list[list[Batch]]:
        """NDJSON to the owners in the order of slots, some streams to each."""
        links, tails = documents.links(documents_count, prefix), documents.tails(3)
        links.sort(key=lambda link: slot(link, len(self.table)))
        streams = []
        for member in self.members:
            owned = self._owned_by(member, links)
            chunks = [owned[i : i + BULK_DOCUMENTS] for i in range(0, len(owned), BULK_DOCUMENTS)]
            batches = [
                Batch(
                    url=f"http://{member.address}/core/bulk",
                    payload="".join(_line(link, tails) for link in chunk).encode(),
                    documents=len(chunk),
                    media="application/x-ndjson",
                )
                for chunk in chunks
            ]
            streams += [batches[stream::STREAMS_PER_NODE] for stream in range(STREAMS_PER_NODE)]
        return streams

    def accepted(self, batch: Batch, answer: bytes) -> int:
        """Count the accepted lines, each of which has a status of its own."""
        return sum(200 <= json.loads(line)["status"] < 300 for line in answer.splitlines())

    async def victim(self, turn: int) -> tuple[Member, list[str]]:
        """Return each owner in turn, with some of the documents that it owns."""
        owners = [member for member in self.members if member.name in set(self.table)]
        member = owners[turn % len(owners)]
        owned = self._owned_by(member, self.links)
        return member, random.Random(turn).sample(owned, min(16, len(owned)))

    async def write(self, link: str, survivor: Member, number: int) -> bool:
        """Put one document at a node that may not know its new owner yet."""
        body = documents.value(number, documents.tails(4)[0])
        url = f"http://{survivor.address}{link}"
        return await self.succeeds("PUT", url, data=body, headers=JSON, timeout=ATTEMPT_LIMIT)


def compile_as_installed() -> None:
    """Write the bytecode of the nodes' packages, as pip does; else each start compiles them."""
    program = (
        "import compileall, docstore, gossip;"
        "[compileall.compile_dir(each.__path__[0], quiet=1) for each in (docstore, gossip)]"
    )
    subprocess.run([sys.executable, "-P", "-c", program], check=True)


def nodes(ports: list[int], directory: Path) -> list[Member]:
    """Return three nodes that are founded as one group."""
    everyone = ",".join(f"n{i}=http://127.0.0.1:{p}" for i, p in enumerate(ports, 1))
    return [
        Member(
            name=f"n{i}",
            address=f"127.0.0.1:{port}",
            command=[
                # -P: what is installed, or on PYTHONPATH, and not what lies in this directory.
                *(sys.executable, "-P", "-m", "docstore", "serve", "--node-id", f"n{i}"),
                *("--data", str(directory / f"n{i}"), "--listen", f"127.0.0.1:{port}"),
                *("--bootstrap", everyone),
            ],
            log=directory / f"n{i}.log",
        )
        for i, port in enumerate(ports, 1)
    ]


def slot(key: str, slots: int) -> int:
    """Return the slot of a link or a partition key: the first bits of its SHA-256."""
    digest = int.from_bytes(hashlib.sha256(key.encode()).digest(), "big")
    return digest >> (256 - (slots.bit_length() - 1))


def _puts(shares: list[tuple[Member, list[str]]]) -> list[Target]:
    tails = documents.tails(2)
    return [
        Target(member.address, [documents.put(link) for link in links], tails)
        for member, links in shares
    ]


def _gets(shares: list[tuple[Member, list[str]]]) -> list[Target]:
    return [
        Target(member.address, [documents.request("GET", link) for link in links])
        for member, links in shares
    ]


def _line(link: str, tails: list[str]) -> str:
    number = int(link[-7:])
    body = documents.value(number, tails[number % len(tails)])
    return f'{{"op":"put","link":"{link}","body":{body}}}\n'
