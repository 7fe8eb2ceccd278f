"""A service of an author on three real nodes: its handlers run on owners only."""

import asyncio
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from docstore.client import Client, LocalCluster, RequestFailed
from docstore.client.local import LocalNode
from tests.docstore.watching import page_of, until

MODULE = """
from docstore.service import UNCHANGED, Refused, Service

class Counters(Service):
    path = "/counters"
    kind = "example:Counter"
    methods = ("POST", "PATCH", "DELETE")

    def on_create(self, body, request):
        return {"count": 0}

    def on_patch(self, state, body, request):
        by = body["by"]
        if by > 100:
            raise Refused(422, "not that many at once")
        state["count"] += by
        if "endsInMicros" in body:
            state["documentExpirationTimeMicros"] = request.now_us + body["endsInMicros"]
        return state if by else UNCHANGED

    def on_delete(self, state, request):
        raise Refused(403, "counters stay")

class Marks(Service):
    path = "/marks"
    options = ("PERSISTENCE", "REPLICATION")
    methods = ("PUT", "PATCH")

    def on_patch(self, state, body, request):
        return state | {"marked": request.version}
"""
EVERY = 'methods = ("POST", "PUT", "PATCH", "DELETE")'
FLAG = ("--service", "counting_here:Counters,counting_here:Marks")


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file that nodes have the services from."""
    file = tmp_path_factory.mktemp("modules") / "counting_here.py"
    file.write_text(MODULE)
    return file


@pytest.fixture(scope="module")
def group(module: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(module.parent))
        cluster = LocalCluster(3, tmp_path_factory.mktemp("group"), ("--slots", "64"))
        for node in cluster.nodes:
            node.flags += FLAG
        with cluster:
            yield cluster


def calls(node: LocalNode) -> int:
    """Return how often a node has called a handler."""
    with urllib.request.urlopen(f"{node.url}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    found = re.search(r'docstore_service_calls_total\{path="/counters"\} (\d+)', text)
    return int(found[1]) if found else 0


def revise(module: Path) -> None:
    """Have nodes that start from now on take every method."""
    methods = 'methods = ("POST", "PATCH", "DELETE")'
    assert methods in MODULE
    module.write_text(MODULE.replace(methods, f"revision = 2\n    {EVERY}"))


async def created(client: Client, name: str) -> str:
    made = await client.post("/counters", {"documentSelfLink": name})
    assert made.value["count"] == 0
    return f"/counters/{name}"


async def refusal(client: Client, method: str, link: str, body: Any) -> RequestFailed:
    with pytest.raises(RequestFailed) as refused:
        await client.json(method, link, body)
    return refused.value


async def once(client: Client, method: str, link: str, body: Any) -> tuple[int, str]:
    """Return how a request that is sent once is answered: status, and code of a problem."""
    raw, headers = orjson.dumps(body), {"Content-Type": "application/json"}
    try:
        done = await client.once(client.urls[0], method, link, raw, headers, timeout_s=20)
    except RequestFailed as error:
        return error.status, error.code
    return done[0], ""


async def test_a_service_is_declared_once_as_a_factory(group: LocalCluster) -> None:
    async with Client(group.urls) as client:
        declared = await client.get("/core/factories/counters")
        assert declared.version == 0, "one of three nodes has declared it, and no other again"
        assert declared.value["service"] == {
            "class": "counting_here:Counters",
            "revision": 1,
            "methods": ["POST", "PATCH", "DELETE"],
        }
        listed = [link async for link in client.links("/core/factories")]
        assert "/core/factories/counters" in listed
        for change in ({"path": "/counters"}, declared.value):
            for method in ("PUT", "PATCH"):
                refused = await refusal(client, method, "/core/factories/counters", change)
                assert refused.status in (400, 409)
    for node in group.nodes:
        assert page_of(f"{node.url}/core/management")["services"] == {
            "/counters": {
                "class": "counting_here:Counters",
                "revision": 1,
                "methods": ["POST", "PATCH", "DELETE"],
                "handlers": ["on_create", "on_patch", "on_delete"],
                "timers": 0,
                "effectsWaiting": 0,
            },
            "/marks": {
                "class": "counting_here:Marks",
                "revision": 1,
                "methods": ["PUT", "PATCH"],
                "handlers": ["on_patch"],
                "timers": 0,
                "effectsWaiting": 0,
            },
        }


async def test_a_thousand_increments_at_once_are_a_thousand(group: LocalCluster) -> None:
    """Through all nodes: the handler runs on the owner alone, once for each."""
    async with Client(group.urls) as client:
        link = await created(client, "a")
    owner = group.owner_of(link)
    before = {node.name: calls(node) for node in group.nodes}
    clients = [Client([url]) for url in group.urls]
    for each in clients:
        await each.__aenter__()
    try:
        done = await asyncio.gather(*(clients[n % 3].patch(link, {"by": 1}) for n in range(1000)))
        final = await clients[0].get(link)
    finally:
        for each in clients:
            await each.__aexit__(None, None, None)
    assert sorted(each.version for each in done) == list(range(1, 1001))
    assert all(each.value["count"] == each.version for each in done)
    assert (final.value["count"], final.version) == (1000, 1000)
    ran = {node.name: calls(node) - before[node.name] for node in group.nodes}
    assert ran == {name: 1000 if name == owner.name else 0 for name in ran}


async def test_refusals_of_a_handler_are_returned_through_any_node(group: LocalCluster) -> None:
    async with Client(group.urls) as client:
        link = await created(client, "b")
    owner = group.owner_of(link)
    for node in group.nodes:
        async with Client([node.url]) as client:
            assert (await client.patch(link, {"by": 0})).version == 0
            refused = await refusal(client, "PATCH", link, {"by": 101})
            assert (refused.status, refused.code) == (422, "refused-by-service")
            assert (await refusal(client, "PUT", link, {"count": 9})).status == 405
            failed = await refusal(client, "PATCH", link, {"by": "one"})
            assert (failed.status, failed.code) == (500, "internal")
            assert (await client.get(link)).value["count"] == 0
    log = (owner.data / "log.txt").read_text()
    assert log.count("a service failed") == 3
    assert "TypeError" in log


async def test_an_expired_document_is_deleted_without_calling_its_handler(
    group: LocalCluster,
) -> None:
    async with Client(group.urls) as client:
        link = await created(client, "e")
        assert (await refusal(client, "DELETE", link, None)).code == "refused-by-service"
        assert (await client.patch(link, {"by": 1, "endsInMicros": 1})).value["count"] == 1
        async with asyncio.timeout(15):
            while await once(client, "GET", link, None) != (404, "not-found"):
                await asyncio.sleep(0.05)


async def test_a_weaker_level_has_handlers_too(group: LocalCluster) -> None:
    async with Client(group.urls) as client:
        await client.put("/marks/a", {"n": 1})
        marked = await client.patch("/marks/a", {})
    assert (marked.value["n"], marked.value["marked"], marked.version) == (1, 1, 1)


@pytest.mark.thorough
async def test_an_owner_without_the_class_refuses_and_reads_on(group: LocalCluster) -> None:
    async with Client(group.urls) as client:
        links = [await created(client, f"c{n}") for n in range(12)]
    bare = group.nodes[0]
    group.kill(bare)
    bare.flags = tuple(flag for flag in bare.flags if flag not in FLAG)
    group.start(bare)
    group.wait_ready()
    until(lambda: any(group.owner_of(link) is bare for link in links))
    async with Client([group.nodes[1].url]) as client:
        for link in links:
            assert (await client.get(link)).value["count"] == 0
        answers = {link: await once(client, "PATCH", link, {"by": 1}) for link in links}
    for link, (status, code) in answers.items():
        is_bare = group.owner_of(link) is bare
        assert (status, code) == ((503, "service-missing") if is_bare else (200, ""))
    assert {status for status, _ in answers.values()} == {200, 503}
    async with Client([bare.url]) as client:
        refused = await refusal(client, "PUT", links[0], {"count": 9})
        assert refused.status == 405, "its methods are declared"
    group.kill(bare)
    bare.flags += FLAG
    group.start(bare)
    group.wait_ready()
    async with Client(group.urls) as client:
        await asyncio.gather(*(client.patch(link, {"by": 1}) for link in links))


@pytest.mark.thorough
async def test_a_greater_revision_is_in_force_everywhere(group: LocalCluster, module: Path) -> None:
    """Declarations belong to the group, handlers to each node."""
    started = group.nodes[0]
    revise(module)
    async with Client([group.nodes[1].url]) as client:
        link = await created(client, "r")
        assert (await refusal(client, "PUT", link, {"count": 5})).status == 405
        group.kill(started)
        group.start(started)
        group.wait_ready()
        assert (await client.put(link, {"count": 5})).value["count"] == 5
        assert (await client.patch(link, {"by": 1})).value["count"] == 6
        declared = await client.get("/core/factories/counters")
    assert (declared.version, declared.value["service"]["revision"]) == (1, 2)
    known = [page_of(f"{node.url}/core/management")["services"] for node in group.nodes]
    assert [each["/counters"]["revision"] for each in known] == [2, 1, 1]
