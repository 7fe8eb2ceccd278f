"""`docstore demo`: three real nodes, real documents, a killed owner - and each claim checked."""

import asyncio
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from docstore.cli.demo_acts import DemoClaims, show_ownership, show_streams
from docstore.cli.load import Plan, load
from docstore.cli.terminal import take_interrupts
from docstore.client import Client, ClientError, LocalCluster, RequestFailed
from docstore.client.local import LocalNode
from docstore.model.words import count

FACTORY = "/airports"
WRITES_AFTER_KILL = 60
GAP_S_MAX = 5.0
GIVEN_BACK_S_MAX = 20.0
NEXT = """
What to do next:
  docstore demo --quick         three nodes that stay, with sample documents
  README.md                     five minutes with curl on those nodes
  examples/quickstart.py        the Python client in 30 lines
  docs/index.md                 all pages, in the repository as the two above"""


def run(out: Console, *, keep: bool, data: Path | None) -> DemoClaims:
    """Run the demo; return its claims with their outcomes."""
    take_interrupts()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    file = data or _airports()
    ids = "iata" if data is None else "row"
    cluster = LocalCluster(3)
    claims = DemoClaims()
    out.print(Panel("docstore: three nodes, one machine, documents that survive", style="bold"))
    started = time.perf_counter()
    try:
        cluster.__enter__()
        ready_s = time.perf_counter() - started
        out.print(f"three nodes serve after {ready_s:.1f} s: {', '.join(cluster.urls)}")
        claims.check("three processes form a group", holds=True, seen=f"{ready_s:.1f} s")
        asyncio.run(_show(cluster, out, claims, Plan(file, FACTORY, ids)))
        if data is None:
            _pipeline(cluster, out, claims)
        out.print(claims.table())
        if keep:
            _keep(cluster, out)
    finally:
        cluster.stop()
    out.print("all claims hold" if claims.hold else "NOT all claims hold")
    out.print(NEXT, highlight=False)
    return claims


async def _show(cluster: LocalCluster, out: Console, claims: DemoClaims, plan: Plan) -> None:
    async with Client(cluster.urls) as client:
        await _documents(client, out, claims, plan)
        link = await anext(client.links(FACTORY))
        await _verbs(cluster, out, claims, link)
        await _kill(cluster, client, out, claims, link)
        await _resync(cluster, client, out, claims)
        await _given_back(client, out, claims, link)
    await show_streams(cluster, out, claims)
    await show_ownership(cluster, out, claims)


async def _documents(client: Client, out: Console, claims: DemoClaims, plan: Plan) -> None:
    out.rule("documents")
    out.print(f"POST /core/factories declares {FACTORY}")
    loaded = await load(client, plan, out)
    page = await client.json("GET", f"{FACTORY}?$count&$limit=1")
    claims.check(
        "a real data set is loaded, durable on a majority",
        holds=page["documentCount"] == loaded.documents + loaded.skipped,
        seen=f"{loaded.documents} documents, {loaded.documents / loaded.seconds:,.0f}/s",
    )


async def _verbs(cluster: LocalCluster, out: Console, claims: DemoClaims, link: str) -> None:
    out.rule("PUT, PATCH, GET through different nodes")
    n1, n2, n3 = cluster.nodes
    async with Client([n1.url]) as one, Client([n2.url]) as two, Client([n3.url]) as three:
        first = await one.get(link)
        second = await two.patch(link, {"visited": True})
        third = await three.get(link)
        out.print(f"{link}: v{first.version} by GET on n1, v{second.version} by PATCH on n2")
        claims.check(
            "a write through one node is read through another",
            holds=third.value == second.value and third.version == first.version + 1,
            seen=f"v{third.version} on n3",
        )
        refused = await _refused(lambda: one.put(link, {"name": "lost?"}, if_match=first.etag))
        claims.check("a lost update is refused", holds=refused == 412, seen=f"status {refused}")
        out.print(f"PUT with the old entity tag {first.etag}: {refused}")
        third = await three.put(link, {**_own(third.value), "visited": 2}, if_match=third.etag)
        versions = await one.history(link)
        numbers = [each["documentVersion"] for each in versions]
        claims.check(
            "history keeps every version",
            holds=numbers == list(range(third.version, -1, -1)),
            seen=f"versions {numbers}",
        )


async def _refused(request: Callable[[], Any]) -> int:
    try:
        await request()
    except RequestFailed as error:
        return error.status
    return 200


async def _kill(
    cluster: LocalCluster, client: Client, out: Console, claims: DemoClaims, link: str
) -> None:
    """Kill the owner of a document during writes; look for every acknowledged write."""
    out.rule("kill -9 of an owner")
    owner = cluster.owner_of(link)
    others = [node for node in cluster.nodes if node is not owner]
    acknowledged: dict[int, int] = {}
    writer = asyncio.create_task(_write(others, link, acknowledged))
    while len(acknowledged) < 20:
        await asyncio.sleep(0.005)
    cluster.kill(owner)
    killed_at, before = time.perf_counter(), len(acknowledged)
    out.print(f"{owner.name}, the owner of {link}, is killed after {before} writes")
    while len(acknowledged) == before and time.perf_counter() - killed_at < 20:
        await asyncio.sleep(0.002)
    gap_s = time.perf_counter() - killed_at
    await writer
    async with Client([node.url for node in others]) as survivors:
        versions = {each["documentVersion"]: each for each in await survivors.history(link)}
    lost = [v for v, count in acknowledged.items() if versions.get(v, {}).get("count") != count]
    heir = cluster.owner_of(link, asked=others[0])
    out.print(f"{heir.name} owns it now; the next write was accepted after {gap_s * 1000:.0f} ms")
    claims.check(
        "no acknowledged write is lost",
        holds=not lost and len(acknowledged) >= before + WRITES_AFTER_KILL,
        seen=f"{len(acknowledged)} acknowledged, {len(lost)} lost",
    )
    claims.check(
        "another node takes over", holds=gap_s < GAP_S_MAX and heir is not owner,
        seen=f"{gap_s * 1000:.0f} ms",
    )  # fmt: skip
    cluster.start(owner)
    await asyncio.to_thread(cluster.wait_ready)
    out.print(f"{owner.name} is started again, and is ready")


async def _write(nodes: Sequence[LocalNode], link: str, acknowledged: dict[int, int]) -> None:
    """Write a counter through the survivors until enough writes are acknowledged after the kill."""
    async with Client([node.url for node in nodes]) as client:
        for count in range(20 + WRITES_AFTER_KILL + 400):
            try:
                acknowledged[(await client.patch(link, {"count": count})).version] = count
            except ClientError:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.002)


async def _resync(cluster: LocalCluster, client: Client, out: Console, claims: DemoClaims) -> None:
    out.rule("resynchronise, compare")
    page = await client.json("PATCH", "/core/management", {"kind": "SynchronizeRequest"})
    while page["state"] == "RUNNING":
        await asyncio.sleep(0.05)
        page = await client.json("GET", f"/core/management/synch?id={page['id']}")
    slots = page["slots"]
    out.print(f"PATCH /core/management: {page['state'].lower()}, {slots['synchronised']} slots")
    claims.check(
        "a resync brings the restarted node up to date",
        holds=page["state"] == "FINISHED" and slots["synchronised"] == slots["total"],
        seen=f"{slots['synchronised']} of {slots['total']} slots",
    )
    digests = await client.json("GET", "/core/management/digests")
    distinct = {str(sorted(each.items())) for each in digests.values()}
    claims.check(
        "all replicas hold the same, by digest",
        holds=len(digests) == len(cluster.nodes) and len(distinct) == 1,
        seen=f"{count(len(digests), 'node')}, {count(len(distinct), 'digest')}",
    )


async def _given_back(client: Client, out: Console, claims: DemoClaims, link: str) -> None:
    """Wait until the killed node owns its slots again."""
    out.rule("the node is taken back")
    began = time.perf_counter()
    page = await client.json("GET", f"{link}/explain")
    while page["owner"] != page["preferredOwner"]:
        if time.perf_counter() - began > GIVEN_BACK_S_MAX:
            break
        await asyncio.sleep(0.1)
        page = await client.json("GET", f"{link}/explain")
    waited_s = time.perf_counter() - began
    out.print(f"{page['owner']} owns {link} after {waited_s:.1f} s more")
    claims.check(
        "a node that returns is given its slots back",
        holds=page["owner"] == page["preferredOwner"],
        seen=f"{page['owner']} after {waited_s:.1f} s",
    )


def _pipeline(cluster: LocalCluster, out: Console, claims: DemoClaims) -> None:
    """Run a Spark job over the loaded documents in a new process, if PySpark and Java exist."""
    out.rule("a pipeline on Spark")
    if importlib.util.find_spec("pyspark") is None or not (
        shutil.which("java") or os.environ.get("JAVA_HOME")
    ):
        out.print("skipped: install docstore\\[spark] and Java 17 (openjdk-17-jre-headless)")
        return
    with tempfile.TemporaryDirectory(prefix="docstore-demo-") as directory:
        asked = [
            sys.executable, "-m", "docstore.pipeline", "tour", FACTORY, "--member", "state",
            "--directory", directory, "--url", ",".join(cluster.urls),
        ]  # fmt: skip
        code, result, last_words = _watched(asked, out)
    if code:
        claims.check("a pipeline on Spark runs", holds=False, seen=last_words[:80])
        return
    state, count = result["most"]
    out.print(f"{result['rows']} documents as Parquet; {state} has the most, {count}")
    claims.check(
        "a view fed by the change feed equals Spark's batch over the same cut",
        holds=result["equalsBatch"], seen=f"{result['groups']} states, {result['seconds']:.0f} s",
    )  # fmt: skip


def _watched(command: Sequence[str], out: Console) -> tuple[int, dict[str, Any], str]:
    """Run a job and show its progress; return its exit code, its result, its last line of errors.

    On a busy machine it takes minutes, of which a user must see that something happens.
    """
    job = subprocess.Popen(  # noqa: S603 - words of ours
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    assert job.stdout is not None
    assert job.stderr is not None
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    line = "no word"
    with job, Progress(*columns, console=out, transient=True) as progress:
        out.print("starting Spark: this act takes half a minute, on a busy machine some minutes")
        bar = progress.add_task("starting Spark", total=None)
        for line in filter(None, map(str.strip, job.stderr)):
            job_name, colon, step = line.partition(": ")
            if colon and job_name in {"tour", "export"}:
                progress.update(bar, description=step)
                out.print(f"  {step}")
        printed = job.stdout.read()
    return job.returncode, json.loads(printed.splitlines()[-1]) if printed else {}, line


def _own(value: dict[str, Any]) -> dict[str, Any]:
    return {key: member for key, member in value.items() if not key.startswith("document")}


def _airports() -> Path:
    """Return the file of the 3,376 United States airports in the vega_datasets package."""
    return Path(str(files("vega_datasets") / "_data" / "airports.csv"))


def _keep(cluster: LocalCluster, out: Console) -> None:
    out.print(f"the nodes run until Ctrl-C: {', '.join(cluster.urls)}")
    out.print(f"  curl {cluster.urls[0]}{FACTORY}")
    try:
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        out.print("stopping")
