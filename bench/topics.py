"""Three nodes of docstore with a topic, asked by clients that know the leaders of partitions."""

import asyncio
import itertools
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import aiohttp
import msgpack

from bench import documents
from bench.cluster import Failed, Failing, Member
from bench.docstores import SETTLE_LIMIT_S, Docstores
from bench.generator import Caller, Reader, Writer

TOPIC = "bench"
PARTITIONS, REPLICAS = 6, 3
MSGPACK = "application/msgpack"
BATCHES = "application/vnd.docstore.batches"
NDJSON = "application/x-ndjson"
FETCH_BYTES = 1 << 20
WAIT_MS = 5000
# Requests to choose from: records need not differ, no system looks at them.
POOL = 16
# Shorter than what lets eight of them wait at once: then one starts every 25 ms, whatever happens.
ATTEMPT = aiohttp.ClientTimeout(total=0.2)

_LENGTH = re.compile(rb"\r\nContent-Length: (\d+)")
_FROM_TO = re.compile(rb"\r\nDocstore-From: (\d+)\r\nDocstore-Next: (\d+)")


class HttpCaller(Caller):
    """Speaks HTTP/1.1. Keeps the head of an answer, and only counts its body."""

    def __init__(self) -> None:
        super().__init__()
        self.received = 0
        """Bytes of all answers."""
        self.head = b""
        self._begun = b""
        self._body_bytes = 0
        """Bytes that the current answer still lacks."""

    def data_received(self, data: bytes) -> None:
        """Note an answer once all of it is here."""
        self.received += len(data)
        if self._body_bytes:
            self._body_bytes -= len(data)
        else:
            begun = self._begun + data
            end = begun.find(b"\r\n\r\n") + 4
            if end < 4:
                self._begun = begun
                return
            self.head, self._begun = begun[:end], b""
            length = _LENGTH.search(self.head)
            self._body_bytes = end + (int(length[1]) if length else 0) - len(begun)
        if not self._body_bytes:
            self.answered(is_fine=self.head[9:10] == b"2")


class RecordReader(Reader):
    """Reads a partition at its leader."""

    def __init__(self, caller: HttpCaller, path: str, media: str, offset: int) -> None:
        self.caller = caller
        self._head = f"GET {path}?maxBytes={FETCH_BYTES}&waitMs={WAIT_MS}"
        self._foot = f"Host: 127.0.0.1\r\nAccept: {media}\r\n\r\n"
        self._offset = offset

    async def read(self, most: int) -> int:
        """Ask from the offset after the last record."""
        asked = f"{self._head}&from={self._offset}&maxRecords={min(most, 100_000)} HTTP/1.1\r\n"
        is_fine = await self.caller.call((asked + self._foot).encode())
        span = _FROM_TO.search(self.caller.head)
        if not is_fine or span is None:
            raise Failed(f"a fetch was answered {self.caller.head[:200]!r}")
        found = int(span[2]) - self._offset
        self._offset += found
        return found


class Topics(Docstores, Failing):
    """docstore with its defaults, fresh data, some documents, and a topic."""

    def __init__(
        self,
        ports: list[int],
        directory: Path,
        count: int,
        *,
        partitions: int = PARTITIONS,
        compression: str = "none",
        values: Sequence[bytes] = (),
        kafka: Sequence[int] = (),
    ) -> None:
        """count: of the documents. partitions: 0 for no topic. values: of the records, if any.

        kafka: ports for clients of Kafka.
        """
        super().__init__(ports, directory, count, turn=0)
        self.brokers = [f"127.0.0.1:{port}" for port in kafka]
        for member, broker in zip(self.members, self.brokers, strict=False):
            member.command = [*member.command, "--kafka-listen", broker]
        self.partitions = partitions
        self.compression = compression
        self._values = values
        self.topic = ""
        self.leaders: list[str] = []
        self.callers: list[HttpCaller] = []

    async def __aexit__(self, *exc: object) -> None:
        """Hang up, and stop what we started."""
        for caller in self.callers:
            caller.close()
        await super().__aexit__(*exc)

    async def prepare(self) -> None:
        """Create the documents and the topic."""
        await super().prepare()
        if self.partitions:
            await self.create(TOPIC, self.partitions)

    async def create(self, name: str, partitions: int) -> None:
        """Create a topic, and wait until all its partitions are led and followed."""
        topic = {
            "name": name, "partitions": partitions, "replicationFactor": REPLICAS,
            "compression": self.compression,
        }  # fmt: skip
        url = f"http://{self.members[0].address}/core/streams"
        await self.ask("POST", url, json=topic, headers={"Prefer": "wait=60"})
        self.topic = name
        await self.settled()

    async def settled(self) -> None:
        """Wait until documents have their owners, and partitions leaders and all followers."""
        await super().settled()
        if not self.topic:
            return
        deadline = time.monotonic() + SETTLE_LIMIT_S
        url = f"http://{self.members[0].address}/core/streams/{self.topic}"
        while time.monotonic() < deadline:
            leaders = await self._leaders(url)
            if leaders and all(leaders):
                self.leaders = leaders
                return
            await asyncio.sleep(0.1)
        raise Failed(f"partitions had no leader within {SETTLE_LIMIT_S:.0f} s")

    async def _leaders(self, url: str) -> list[str]:
        """Return each partition's leader, "" without all its followers; [] if the page fails."""
        try:
            page = await self.ask("GET", url)
        except Failed:
            return []
        found = page["partitions"]
        assert isinstance(found, list)
        return [each["leader"] * (len(each.get("lrs") or ()) == REPLICAS) for each in found]

    def address_of(self, partition: int) -> str:
        """Return where the leader of a partition listens."""
        leader = self.leaders[partition]
        return next(member.address for member in self.members if member.name == leader)

    async def call(self, address: str) -> HttpCaller:
        """Return a new connection to a node."""
        host, _, port = address.partition(":")
        loop = asyncio.get_running_loop()
        _, caller = await loop.create_connection(HttpCaller, host, int(port))
        self.callers.append(caller)
        return caller

    async def writer(self, number: int, records: int) -> Writer:
        """Return a writer of `records` records a request to a partition, at its leader."""
        partition = number % len(self.leaders)
        caller = await self.call(self.address_of(partition))
        tails = documents.tails(partition)
        heads, path = {}, path_of(partition)
        for turn in range(POOL):
            values: Iterable[bytes] = (
                documents.value(n, tails[(n + turn) % len(tails)]).encode() for n in range(records)
            )
            if self._values:
                begin = (number * POOL + turn) * records % (len(self._values) - records)
                values = self._values[begin : begin + records]
            body = b"".join(msgpack.packb((None, value, None, None)) for value in values)
            heads[turn] = _post(path, body)
        return Writer(caller, itertools.cycle(heads.values()), things=records)

    async def reader(self, partition: int, offset: int = 0, media: str = BATCHES) -> RecordReader:
        """Return one that reads a partition from an offset on, at its leader."""
        caller = await self.call(self.address_of(partition))
        return RecordReader(caller, path_of(partition), media, offset)

    async def ends(self) -> list[int]:
        """Return how many records each partition has."""
        page = await self.ask("GET", f"http://{self.members[0].address}/core/streams/{TOPIC}")
        found = page["partitions"]
        assert isinstance(found, list)
        return [int(each["hw"]) for each in found]

    async def putters(self, number: int) -> list[Writer]:
        """Return `number` writers that put documents, each at their owner."""
        [(_, puts, _), *_] = self.ways()
        writers = []
        for turn in range(number):
            target = puts[turn % len(puts)]
            caller = await self.call(target.address)
            writers.append(Writer(caller, _puts(turn, target.heads, target.tails)))
        return writers

    async def victim(self, turn: int) -> tuple[Member, list[str]]:
        """Return each leader in turn, with the partitions that it leads."""
        leading = sorted(set(self.leaders))
        name = leading[turn % len(leading)]
        member = next(member for member in self.members if member.name == name)
        led = [path_of(number) for number, leader in enumerate(self.leaders) if leader == name]
        return member, led

    async def write(self, link: str, survivor: Member, number: int) -> bool:
        """Append one record at a node that may not know the new leader yet."""
        body = msgpack.packb((None, str(number).encode(), None, None))
        url, headers = f"http://{survivor.address}{link}", {"Content-Type": MSGPACK}
        return await self.succeeds("POST", url, data=body, headers=headers, timeout=ATTEMPT)


def path_of(partition: int) -> str:
    """Return the path of a partition's records."""
    return f"/core/streams/{TOPIC}/partitions/{partition}/records"


def _post(path: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {MSGPACK}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _puts(turn: int, heads: list[str], tails: list[str]) -> Iterator[bytes]:
    """Yield PUTs, no two of the same value."""
    for number in itertools.count(turn, 1000):
        head, tail = heads[number % len(heads)], tails[number % len(tails)]
        yield f"{head}{number:0{documents.NUMBER_DIGITS}}{tail}".encode()
