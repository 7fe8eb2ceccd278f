"""Each directed link of a group is held for a while, one after the other; all else continues.

    python -m tests.whole.holding [--seed S] [--size N] [--held-s SECONDS]

No message of one node to one other arrives, not even gossip; every other link works. Clients of all
nodes write and read documents, records and leases meanwhile. No request takes more than LATE_S, and
those that begin once a link has been held for SURE_S succeed.
"""

import argparse
import asyncio
import sys
from collections.abc import Callable
from itertools import permutations
from random import Random
from typing import Any
from unittest.mock import patch

from docstore.runtime.links.connections import Inbound
from docstore.runtime.links.detours import Detours
from docstore.wire.link_messages import Relayed
from tests.chaos.mix import Op
from tests.sim.checkers import INFINITE
from tests.whole.run import PATIENCE_S, Host, Run, run

SURE_S, LATE_S, PROMPT_S = 2.0, 3.0, 1.5
RECORDS = "/core/streams/flights/partitions/{}/records"
PARTITIONS = 3
TTL_MS = 6_000
SETTLED_S = 3.5
"""By then hanging connections have been dialled anew."""


class Holding(Run):
    """A group in which the frames of each node to each other node are held in turn."""

    size_of_group = 3
    held_s = 2.6
    pause_s = 1.5
    """Longest pause between two requests of a client."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.size, self.factor = self.size_of_group, 3
        del self.hosts[self.size :]
        while len(self.hosts) < self.size:
            self.hosts.append(Host(f"n{len(self.hosts) + 1}", self))
        self.founders = self.founders_of(self.hosts)
        self.network.lateness = 0.0  # One fault at a time.
        self.is_over = False
        self.held = ""
        self.held_since = 0.0
        self.made: set[tuple[int, int]] = set()
        """(partition, number in a record) of acknowledged records."""

    async def main(self) -> None:
        for host in self.hosts:
            self.start(host)
        await self._declared()
        await self._made()
        rngs = [Random(self.rng.random()) for _ in range(4 * self.size)]
        hosts = [host for host in self.hosts for _ in range(4)]
        kinds = [self._document, self._document, self._record, self._lease] * self.size
        clients = [
            asyncio.create_task(self._go_on(host, rng, kind))
            for host, rng, kind in zip(hosts, rngs, kinds, strict=True)
        ]
        await asyncio.sleep(SETTLED_S)
        for here, there in permutations([host.address for host in self.hosts], 2):
            self.held, self.held_since = f"{here} to {there}", self.loop.now
            self.network.cuts.add((here, there))
            await asyncio.sleep(self.held_s)
            self.held = ""
            self.network.mend({(here, there)})
            await asyncio.sleep(SETTLED_S)
        self.is_over = True
        await asyncio.gather(*clients)
        self.outcome.faults["held"] = self.size * (self.size - 1)
        for host in self.hosts:
            assert host.node is not None
            self.outcome.counters.update(host.node.parts.links.counters)
        await self._judge()
        await self._judge_records()

    async def _made(self) -> None:
        topic = {"name": "flights", "partitions": PARTITIONS, "minInSync": 2}
        status = 0
        while status not in (200, 201, 409):
            status, _ = await self._told(self.hosts[0], "POST", "/core/streams", topic)
            await asyncio.sleep(0.1)
        for number in range(PARTITIONS):
            await self._made_partition(number)

    async def _made_partition(self, number: int) -> None:
        for _ in range(200):
            answer = await self._told(
                self.hosts[0], "POST", RECORDS.format(number), {"value": -1 - number}
            )
            if answer[0] == 200:
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"partition {number} is missing: {answer}")

    async def _go_on(self, host: Host, rng: Random, kind: Callable[..., Any]) -> None:
        number = 0
        while not self.is_over:
            number += 1
            await kind(host, rng, number)
            await asyncio.sleep(rng.random() * self.pause_s)

    # Clients

    async def _document(self, host: Host, rng: Random, number: int) -> None:
        if rng.random() < 0.1:
            await self._timed(host, "GET", "/notes", None, (200,))
        kind = rng.choice(("put", "append", "read"))
        op = Op(kind, rng.choice(self.links), f"{host.name}.{rng.random()}", host.name, 0.0)
        verb = {"read": "GET", "append": "PATCH"}.get(kind, "PUT")
        body = None if verb == "GET" else {"uid": op.uid}
        op.start, op.end = self.loop.time(), INFINITE
        self.ops.append(op)
        status, fields, _ = await self._timed(host, verb, op.link, body, (200, 201, 404))
        if status:
            op.status, op.end = status, self.loop.time()
            if status in (200, 201, 404):
                op.version = int(fields.get("docstore-version", -1))

    async def _record(self, host: Host, rng: Random, number: int) -> None:
        partition, value = rng.randrange(PARTITIONS), rng.getrandbits(60)
        path = RECORDS.format(partition)
        if rng.random() < 0.7:
            status, _, _ = await self._timed(host, "POST", path, {"value": value}, (200,))
            if status == 200:
                self.made.add((partition, value))
        else:
            await self._timed(host, "GET", f"{path}?from=end-1&isolation=committed", None, (200,))
            await self._timed(host, "GET", path.removesuffix("/records"), None, (200,))

    async def _lease(self, host: Host, rng: Random, number: int) -> None:
        body = {"documentSelfLink": host.name, "ttlMs": TTL_MS}
        if number == 1:
            await self._timed(host, "POST", "/core/leases", body, (201,))
        keep_alive = {"kind": "KeepAliveRequest"}
        await self._timed(host, "PATCH", f"/core/leases/{host.name}", keep_alive, (200,))

    async def _timed(
        self, host: Host, verb: str, path: str, body: Any, good: tuple[int, ...]
    ) -> tuple[int, dict[str, str], Any]:
        start, held, since = self.loop.now, self.held, self.held_since
        headers = {"Docstore-Timeout-Ms": "5000", "Accept": "application/json"}
        try:
            async with asyncio.timeout(PATIENCE_S):
                answer = await self._ask(host, verb, path, body, headers)
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            answer = (0, {}, repr(error))
        status, took_s = answer[0], self.loop.now - start
        is_sure = bool(held) and held == self.held and start - since > SURE_S
        at = f"{verb} {path} at {host.name}, {start - since:.2f} s after {held}"
        if took_s > (PROMPT_S if is_sure else LATE_S):
            self.outcome.stuck.append(f"{at}: {took_s:.2f} s, {status}")
        if status not in good and (is_sure or status not in (503, 504)):
            self.outcome.problems.append(f"{at}: {status} {answer[2]}"[:400])
        self.outcome.counters[f"{status}"] += 1
        return answer

    # The verdict

    async def _judge_records(self) -> None:
        found: list[tuple[int, int]] = []
        for number in range(PARTITIONS):
            path = f"{RECORDS.format(number)}?from=beginning&maxRecords=10000&maxBytes=4000000"
            asked = {"Accept": "application/json", "Docstore-Timeout-Ms": "5000"}
            _, _, page = await self._ask(self.hosts[0], "GET", path, None, asked)
            found += [(number, each["value"]) for each in page["records"]]
        if lost := self.made - set(found):
            self.outcome.problems.append(f"{len(lost)} acknowledged records are missing")
        if len(found) > len(set(found)):
            self.outcome.problems.append("records are there twice")


class HoldingLong(Holding):
    """Links are held until all hanging connections have been closed, under load."""

    held_s = 30.0
    pause_s = 0.2


class HoldingLongOfFive(HoldingLong):
    """In a group of five, where each document and partition has three replicas: all 20 links."""

    size_of_group = 5
    held_s = 8.0
    pause_s = 0.8


class Nameless(Holding):
    """Relays pass frames on as their own."""

    async def main(self) -> None:
        with patch.object(Detours, "_pass_on", _in_its_own_name):
            await super().main()


def _in_its_own_name(self: Detours, connection: Inbound, message: Relayed) -> None:
    me = self._links.events.hello("").sender
    if onward := self._links.outbound.get(message.receiver):
        onward.say(message._replace(source=me))


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.whole.holding", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=3)
    parser.add_argument("--held-s", type=float, default=30.0)
    arguments = parser.parse_args()
    more = {"size_of_group": arguments.size, "held_s": arguments.held_s}
    kind = type("Held", (HoldingLong,), more)
    outcome = run(arguments.seed, kind)
    found = [*outcome.stuck, *outcome.problems]
    print(*(each[:200] for each in found[:40]), sep="\n")
    print(f"{len(found)} found; {outcome.operations:,} operations; {dict(outcome.counters)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
