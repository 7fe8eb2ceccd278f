"""Streams beside JetStream: same machine, same run, same clients, one loaded at a time.

`python -m bench.streams` prints the table and keeps the figures in bench/results/streams.json. Both
have three processes and every record on all of them. docstore answers once a record is on two
disks or more; JetStream once two or more have handed it to their kernels, and syncs every two
minutes.

Exit codes: 0 every line is met, 1 one is missed, a request failed or a system broke, 2 something is
missing on this machine. Without nats-server docstore is measured alone, and what is a comparison is
not judged.
"""

import argparse
import asyncio
import io
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from bench import alone, kafka_clients, machine
from bench.cluster import Processes
from bench.failover import failovers, go_on, kill, stop
from bench.generator import Flow, Reader, Writer, fetch, keep_busy, paced, tail
from bench.nats import JetStreams
from bench.report import Report, Row
from bench.topics import BATCHES, NDJSON, PARTITIONS, Topics

MEMBERS = 3
BATCH, BATCHING = 500, 12
"""Records in a batch, and connections that send one after the other."""
SINGLES = 64
PUT_CLIENTS, PUTS_PER_S = 8, 100
BESIDE_RECORDS_PER_S = 20_000
MANY_PARTITIONS = 1000
AT_REST_S = 75.0
WARM_UP_S = 1.0
KAFKA_TOPIC, RECORD_BYTES = "kafka", 200
FETCH_MOST, LINES_MOST = 1_200_000, 300_000
"""Records that are read at most, in all."""


@dataclass(frozen=True)
class Plan:
    """How much of everything."""

    rounds: int
    seconds: float
    kills: int
    stops: int
    idle_s: float


LONG = Plan(rounds=3, seconds=8, kills=50, stops=10, idle_s=30)
SHORT = Plan(rounds=1, seconds=4, kills=5, stops=2, idle_s=30)
PARTS = ("load", "documents", "idle", "failover", "compression")


CPU = "   processor of three nodes"
ROWS = [
    Row("batches", "batches of 500, 12 clients", unit="records/s", least=50_000, aim="100,000"),
    Row("batches", "   p99 of a batch", "p99_ms", "ms"),
    Row("batches", CPU, "cpu_us", "us"),
    Row("singles", "single records, 64 clients", unit="records/s", ratio=0.5, aim="1x"),
    Row("singles", "   p50", "p50_ms", "ms"),
    Row("singles", "   p99", "p99_ms", "ms"),
    Row("singles", CPU, "cpu_us", "us"),
    Row("one_client", "single records, 1 client", unit="records/s"),
    Row("one_client", "   p50", "p50_ms", "ms"),
    Row("tail", "sent to read by a waiting reader, p50", "p50_ms", "ms", most=10),
    Row("tail", "   p99", "p99_ms", "ms"),
    Row("fetch", "full fetch, as sealed batches", unit="records/s", least=200_000),
    Row("fetch", CPU, "cpu_us", "us"),
    Row("fetch_lines", "full fetch, as lines of JSON", unit="records/s"),
    Row("fetch_lines", CPU, "cpu_us", "us"),
    Row("kafka", "by confluent-kafka, 1 producer", unit="records/s", least=100_000),
    Row("kafka", CPU, "cpu_us", "us"),
    Row("kafka_fetch", "   1 consumer, full fetch", unit="records/s"),
    Row("kafka_fetch", CPU, "cpu_us", "us"),
    Row("put_alone", "PUT, 100/s alone, p99", "p99_ms", "ms"),
    Row("put_beside", "   beside 20,000 records/s", "p99_ms", "ms"),
    Row("put_ratio", "   times as long", "p99", "x", most=2),
    Row("beside", "   records meanwhile", unit="records/s"),
    Row("idle", "at rest, three nodes: processor", "percent", "%"),
    Row("idle_topic", "   with 1,000 partitions", "percent", "%"),
    Row("idle_ratio", "   times as much", "ratio", "x", within=0.1),
    Row("killed", "leader killed to commit, p50", "s", "s"),
    Row("killed", "   longest", "s", "s", share=1.0, most=1, spared=1),
    Row("stopped", "leader stopped, longest", "s", "s", share=1.0, most=3, spared=0),
]
NOTE = (
    "200 bytes a record, three copies. docstore: fsync on the whole live replica set before an "
    "answer; JetStream: fsync every two minutes."
)


@dataclass
class Run:
    """One run: where, how much, and what was found so far."""

    plan: Plan
    places: machine.Places
    nats: str
    values: list[bytes]
    """Real values, for `compression`."""
    report: Report

    @asynccontextmanager
    async def flow(self, side: str, row: str, cluster: Processes) -> AsyncIterator[list[Flow]]:
        """Note the flow that is put into the list, with the processor time of the members."""
        found: list[Flow] = []
        cpu_s = cluster.cpu_s()
        yield found
        [flow] = found
        cpu_us = (cluster.cpu_s() - cpu_s) * 1e6 / flow.things
        self.report.note(side, row, **asdict(flow), cpu_us=cpu_us)


async def load(run: Run) -> None:
    """Batches, singles, a reader at the end, and a full fetch: each system from fresh data."""
    for turn in range(run.plan.rounds):
        print(f"round {turn + 1} of {run.plan.rounds}", flush=True)
        if run.nats:
            ports, directory = run.places.new("nats")
            async with JetStreams(run.nats, ports, directory) as servers:
                await load_nats(run, servers)
        ports, directory = run.places.new("docstore")
        kafka = machine.free_ports(MEMBERS)
        async with Topics(ports, directory, 100, kafka=kafka) as nodes:
            await load_docstore(run, nodes)
            await load_kafka(run, nodes)


async def write(run: Run, side: str, cluster: Topics | JetStreams) -> int:
    """Measure batches and singles; return how many records of batches there are at least."""
    batching = [await cluster.writer(number, BATCH) for number in range(BATCHING)]
    await keep_busy(batching, WARM_UP_S)
    async with run.flow(side, "batches", cluster) as found:
        found.append(await keep_busy(batching, run.plan.seconds))
    records = found[0].things
    singles = [await cluster.writer(number, 1) for number in range(SINGLES)]
    await keep_busy(singles, WARM_UP_S)
    for row, writers in (("singles", singles), ("one_client", singles[:1])):
        async with run.flow(side, row, cluster) as found:
            found.append(await keep_busy(writers, run.plan.seconds))
    return records


async def follow(run: Run, side: str, cluster: Processes, writer: Writer, reader: Reader) -> None:
    """Measure how long a record takes to a reader that waits for it."""
    async with run.flow(side, "tail", cluster) as found:
        found.append(await tail(writer, reader, run.plan.seconds))


async def load_nats(run: Run, servers: JetStreams) -> None:
    """Measure JetStream on every row that is compared."""
    records = await write(run, "jetstream", servers)
    end_reader = await servers.reader(0, is_new=True)
    await follow(run, "jetstream", servers, await servers.writer(0, 1), end_reader)
    reader = await servers.reader(1)
    async with run.flow("jetstream", "fetch", servers) as found:
        found.append(await fetch([reader], min(records, LINES_MOST)))


async def load_docstore(run: Run, nodes: Topics) -> None:
    """Measure docstore on every row that is compared."""
    await write(run, "docstore", nodes)
    ends = await nodes.ends()
    end_reader = await nodes.reader(0, ends[0])
    await follow(run, "docstore", nodes, await nodes.writer(0, 1), end_reader)
    for row, media, most in (("fetch", BATCHES, FETCH_MOST), ("fetch_lines", NDJSON, LINES_MOST)):
        readers = [await nodes.reader(number, 0, media) for number in range(PARTITIONS)]
        each = min(*ends, most // PARTITIONS)
        async with run.flow("docstore", row, nodes) as found:
            found.append(await fetch(readers, each))


async def load_kafka(run: Run, nodes: Topics) -> None:
    """Measure the same nodes by a producer and a consumer of Kafka, in this process."""
    servers, value = ",".join(nodes.brokers), b"x" * RECORD_BYTES
    await nodes.create(KAFKA_TOPIC, PARTITIONS)
    await asyncio.to_thread(kafka_clients.produce, servers, KAFKA_TOPIC, value, WARM_UP_S)
    cpu_s = nodes.cpu_s()
    work = asyncio.to_thread(kafka_clients.produce, servers, KAFKA_TOPIC, value, run.plan.seconds)
    given, took_s = await work
    run.report.note(
        "docstore", "kafka", rate=given.things / took_s, errors=given.errors,
        cpu_us=(nodes.cpu_s() - cpu_s) * 1e6 / given.things,
    )  # fmt: skip
    records, cpu_s = min(given.things, FETCH_MOST), nodes.cpu_s()
    work_of_reader = asyncio.to_thread(
        kafka_clients.consume, servers, KAFKA_TOPIC, PARTITIONS, records
    )
    found, took_s = await work_of_reader
    run.report.note(
        "docstore", "kafka_fetch", rate=found / took_s, errors=max(0, records - found),
        cpu_us=(nodes.cpu_s() - cpu_s) * 1e6 / found,
    )  # fmt: skip


async def documents(run: Run) -> None:
    """Measure PUTs of documents at a steady pace, alone and beside records."""
    seconds = 2 * run.plan.seconds
    for _ in range(run.plan.rounds):
        ports, directory = run.places.new("documents")
        async with Topics(ports, directory, 3000) as nodes:
            putters = await nodes.putters(PUT_CLIENTS)
            await paced(putters, PUTS_PER_S, WARM_UP_S)
            alone = await paced(putters, PUTS_PER_S, seconds)
            run.report.note("docstore", "put_alone", **asdict(alone))
            writers = [await nodes.writer(number, BATCH) for number in range(BATCHING)]
            beside, records = await asyncio.gather(
                paced(putters, PUTS_PER_S, seconds),
                paced(writers, BESIDE_RECORDS_PER_S / BATCH, seconds),
            )
            run.report.note("docstore", "put_beside", **asdict(beside))
            run.report.note("docstore", "beside", **asdict(records))
            run.report.note("docstore", "put_ratio", p99=beside.p99_ms / alone.p99_ms)


async def idle(run: Run) -> None:
    """Measure the processor time of two groups that do nothing, side by side: one has a topic."""
    places = [run.places.new("idle") for _ in range(2)]
    bare, topic = (Topics(*place, 100, partitions=0) for place in places)
    async with bare, topic:
        await topic.create("many", MANY_PARTITIONS)
        await asyncio.sleep(AT_REST_S)
        before = [nodes.cpu_s() for nodes in (bare, topic)]
        await asyncio.sleep(run.plan.idle_s)
        used = [nodes.cpu_s() - s for nodes, s in zip((bare, topic), before, strict=True)]
        for row, cpu_s in zip(("idle", "idle_topic"), used, strict=True):
            run.report.note("docstore", row, percent=100 * cpu_s / run.plan.idle_s)
        run.report.note("docstore", "idle_ratio", ratio=used[1] / used[0])


async def failover(run: Run) -> None:
    """Kill and stop leaders; note the longest that any partition of each waited for a record."""
    ports, directory = run.places.new("failover")
    async with Topics(ports, directory, 100) as nodes:
        async for waits_s in failovers(nodes, run.plan.kills, kill):
            run.report.note("docstore", "killed", s=max(waits_s))
        async for waits_s in failovers(nodes, run.plan.stops, stop, go_on):
            run.report.note("docstore", "stopped", s=max(waits_s))


async def compression(run: Run) -> None:
    """Measure a plain topic and a compressed one in turn, with real values."""
    for codec in ("none", "zstd") * run.plan.rounds:
        ports, directory = run.places.new(codec)
        async with Topics(ports, directory, 100, compression=codec, values=run.values) as nodes:
            writers = [await nodes.writer(number, BATCH) for number in range(BATCHING)]
            async with run.flow(codec, "batches", nodes) as found:
                found.append(await keep_busy(writers, run.plan.seconds))
            ends = await nodes.ends()
            for row, media in (("fetch", BATCHES), ("fetch_lines", NDJSON)):
                readers = [await nodes.reader(number, 0, media) for number in range(PARTITIONS)]
                each = min(*ends, LINES_MOST // PARTITIONS)
                async with run.flow(codec, row, nodes) as found:
                    found.append(await fetch(readers, each))
                received = sum(reader.caller.received for reader in readers)
                run.report.note(codec, f"{row} wire", bytes=received / found[0].things)
        stored = sum(each.stat().st_size for each in directory.rglob("streams.db"))
        run.report.note(codec, "disk", bytes=stored / MEMBERS / sum(ends))


def arguments() -> argparse.Namespace:
    parser = alone.parser("bench.streams", __doc__, "streams")
    parser.add_argument("--short", action="store_true", help="one quick round, five kills")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="per row and round")
    parser.add_argument("--kills", type=int)
    parser.add_argument("--stops", type=int)
    parser.add_argument("--only", default=",".join(PARTS), help="some of " + ",".join(PARTS))
    parser.add_argument("--alone", action="store_true", help="without JetStream")
    parser.add_argument(
        "--values", type=argparse.FileType(), default=io.StringIO("[]"),
        help="file with a JSON array, for `compression`",
    )  # fmt: skip
    options = parser.parse_args()
    if not set(PARTS).issuperset(options.only.split(",")):
        parser.error(f"--only takes {', '.join(PARTS)}")
    return options


async def measure(options: argparse.Namespace) -> bool:
    """Measure as asked; say whether every line is met."""
    default = SHORT if options.short else LONG
    plan = Plan(
        rounds=options.rounds or default.rounds,
        seconds=options.seconds or default.seconds,
        kills=default.kills if options.kills is None else options.kills,
        stops=default.stops if options.stops is None else options.stops,
        idle_s=default.idle_s,
    )
    parts = options.only.split(",")
    values = [json.dumps(each).encode() for each in json.load(options.values)]
    report = Report("streams beside JetStream", "jetstream", ROWS, NOTE)
    with machine.scratch(options.dir) as scratch:
        is_alone = options.alone or "load" not in parts
        nats = machine.rival("nats-server", "nats-server", alone=is_alone)
        facts = await machine.facts(options.dir)
        if nats:
            facts["nats-server"] = await machine.version(r" v(\S+)", nats, "--version")
        run = Run(plan, machine.Places(scratch, MEMBERS), nats, values, report)
        works = (load, documents, idle, failover, compression)
        for part, work in zip(PARTS, works, strict=True):
            if part in parts and (values or work is not compression):
                print(part, flush=True)
                await work(run)
    now = datetime.now(UTC)
    report.show()
    report.keep(
        options.name, facts | {"at": now.isoformat(timespec="minutes"), "plan": asdict(plan)}
    )
    return report.is_met()


if __name__ == "__main__":
    asked = arguments()
    sys.exit(alone.exit_code(lambda: measure(asked)))
