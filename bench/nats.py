"""Three servers of NATS with JetStream: one stream on all three, asked at its leader.

A server writes a message to its file and answers; the file is synced every two minutes, a setting
that Debian's version does not have. So what it acknowledges survives the loss of a process, while
what docstore acknowledges also survives the loss of power. The client is the text protocol itself.
"""

import asyncio
import itertools
import json
import time
from pathlib import Path
from typing import Any

from bench import documents
from bench.cluster import Failed, Member, Processes
from bench.generator import Caller, Reader, Writer

STREAM, SUBJECT = "BENCH", "bench.records"
FETCH, FETCH_S = 5000, 5
CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'
POOL = 16
ASK_S, LEADER_LIMIT_S = 3.0, 30.0


class NatsCaller(Caller):
    """Speaks NATS; every message to its inbox is an answer."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.inbox = f"_INBOX.bench.{number}"
        self.last = b""
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello, and listen to the inbox."""
        super().connection_made(transport)
        self.write(CONNECT + f"SUB {self.inbox} 1\r\n".encode())

    def data_received(self, data: bytes) -> None:
        """Note each message that is here whole."""
        data = self._rest + data if self._rest else data
        at = 0
        while (end := data.find(b"\r\n", at)) >= 0:
            line = data[at:end]
            following = end + 2
            if line.startswith((b"MSG ", b"HMSG ")):
                size = int(line[line.rindex(b" ") + 1 :])
                following += size + 2
                if following > len(data):
                    break
                self.last = data[end + 2 : following - 2]
                is_fine = line[:1] == b"M" and b'"error"' not in self.last
                self.answered(is_fine=is_fine)
            elif line == b"PING":
                self.write(b"PONG\r\n")
            elif line.startswith(b"-ERR"):
                self.last = line
                self.answered(is_fine=False)
            at = following
        self._rest = data[at:]

    async def ask(self, subject: str, question: dict[str, Any]) -> dict[str, Any]:
        """Return what JetStream's own interface answers, if it does: it may have no leader yet."""
        request = publication(f"$JS.API.{subject}", self.inbox, json.dumps(question))
        try:
            async with asyncio.timeout(ASK_S):
                await self.call(request)
            found: dict[str, Any] = json.loads(self.last)
        except TimeoutError:
            return {"error": "no answer"}
        except ValueError:
            return {"error": self.last.decode(errors="replace")}
        return found


class MessageReader(Reader):
    """Reads the stream by asking for batches of messages."""

    def __init__(self, caller: NatsCaller, consumer: str) -> None:
        self.caller: NatsCaller = caller
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{consumer}"

    async def read(self, most: int) -> int:
        """Ask for messages, and wait until all of them are there."""
        wanted = min(most, FETCH)
        asked = json.dumps({"batch": wanted, "expires": FETCH_S * 1_000_000_000})
        request = publication(self._subject, self.caller.inbox, asked)
        if not await self.caller.call(request, wanted):
            raise Failed(f"a fetch was answered {self.caller.last[:200]!r}")
        return wanted


class JetStreams(Processes):
    """NATS with JetStream, fresh data, on ports of our own."""

    def __init__(self, program: str, ports: list[int], directory: Path) -> None:
        directory.mkdir()
        self.callers: list[NatsCaller] = []
        self._numbers = itertools.count(1)
        self.leader = ""
        routes = ",".join(f"nats://127.0.0.1:{port + 1}" for port in ports)
        self.members = [
            Member(
                name=f"s{port}",
                address=f"127.0.0.1:{port}",
                command=[
                    *(program, "-js", "-sd", str(directory / f"s{port}")),
                    *("-n", f"s{port}", "-a", "127.0.0.1", "-p", str(port), "-m", str(port + 2)),
                    *("--cluster_name", "bench", "--routes", routes),
                    *("--cluster", f"nats://127.0.0.1:{port + 1}"),
                ],
                log=directory / f"s{port}.log",
            )
            for port in ports
        ]

    async def __aexit__(self, *exc: object) -> None:
        """Hang up, and stop what we started."""
        for caller in self.callers:
            caller.close()
        await super().__aexit__(*exc)

    async def is_ready(self, member: Member) -> bool:
        """Ask whether JetStream is enabled and has a leader of its own."""
        host, _, port = member.address.partition(":")
        return await self.succeeds("GET", f"http://{host}:{int(port) + 2}/healthz?js-enabled=true")

    async def prepare(self) -> None:
        """Create the stream, and learn its leader."""
        caller = await self.call(self.members[0].address)
        config = {
            "name": STREAM, "subjects": [SUBJECT], "retention": "limits", "storage": "file",
            "num_replicas": len(self.members), "max_consumers": -1, "max_msgs": -1,
            "max_bytes": -1, "discard": "old",
        }  # fmt: skip
        deadline = time.monotonic() + LEADER_LIMIT_S
        answer: dict[str, Any] = {}
        while time.monotonic() < deadline:
            answer = await caller.ask(f"STREAM.CREATE.{STREAM}", config)
            leader = answer.get("cluster", {}).get("leader")
            if "error" not in answer and leader:
                self.leader = next(m.address for m in self.members if m.name == leader)
                return
            await asyncio.sleep(0.2)
        raise Failed(f"there was no stream after {LEADER_LIMIT_S:.0f} s: {answer}")

    async def call(self, address: str) -> NatsCaller:
        """Return a new connection to a server."""
        host, _, port = address.partition(":")
        loop = asyncio.get_running_loop()
        number = next(self._numbers)
        _, caller = await loop.create_connection(lambda: NatsCaller(number), host, int(port))
        self.callers.append(caller)
        return caller

    async def writer(self, number: int, records: int) -> Writer:
        """Return a writer of `records` messages at once, each with an answer of its own."""
        caller = await self.call(self.leader)
        tails = documents.tails(number)
        pool = []
        for turn in range(POOL):
            values = (documents.value(n, tails[(n + turn) % len(tails)]) for n in range(records))
            pool.append(b"".join(publication(SUBJECT, caller.inbox, value) for value in values))
        return Writer(caller, itertools.cycle(pool), answers=records, things=records)

    async def reader(self, number: int, *, is_new: bool = False) -> MessageReader:
        """Return one that reads all messages, or those that are published from now on."""
        caller = await self.call(self.leader)
        name = f"reader{number}{'new' if is_new else ''}"
        consumer = {
            "durable_name": name, "ack_policy": "none",
            "deliver_policy": "new" if is_new else "all", "max_waiting": 512,
        }  # fmt: skip
        question = {"stream_name": STREAM, "config": consumer}
        answer = await caller.ask(f"CONSUMER.DURABLE.CREATE.{STREAM}.{name}", question)
        if "error" in answer:
            raise Failed(f"there was no consumer: {answer}")
        return MessageReader(caller, name)


def publication(subject: str, reply: str, payload: str) -> bytes:
    """Return a message as it goes over the wire."""
    return f"PUB {subject} {reply} {len(payload)}\r\n{payload}\r\n".encode()
