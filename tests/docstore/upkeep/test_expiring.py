"""Real nodes delete documents whose time is over, once, and no sooner."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from docstore.client import Client, LocalCluster, RequestFailed
from tests.docstore.watching import page_of, start_all, until

LEVEL_1 = ["PERSISTENCE", "REPLICATION"]
EXPIRY = "documentExpirationTimeMicros"


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(3, tmp_path_factory.mktemp("group")) as group:
        yield group


@pytest.fixture
def cluster(group: LocalCluster) -> LocalCluster:
    """Three nodes that serve."""
    start_all(group)
    return group


def in_s(seconds: float) -> int:
    return int((time.time() + seconds) * 1e6)


async def gone(cluster: LocalCluster, link: str) -> None:
    def is_gone() -> bool:
        return all(page_of(f"{node.url}{link}").get("status") == 404 for node in cluster.nodes)

    await asyncio.to_thread(until, is_gone)


@pytest.mark.parametrize("options", [None, LEVEL_1])
async def test_a_document_is_deleted_when_its_time_is_over(
    cluster: LocalCluster, options: list[str] | None
) -> None:
    codes = "/codes-of-owners" if options is None else "/codes-of-all"
    async with Client(cluster.urls) as store:
        await store.declare(codes, **({"options": options} if options else {}))
        await store.put(f"{codes}/soon", {"n": 1, EXPIRY: in_s(2)})
        await store.put(f"{codes}/late", {"n": 2, EXPIRY: in_s(3600)})
        await store.put(f"{codes}/never", {"n": 3, EXPIRY: 0})
        await store.put(f"{codes}/renewed", {"n": 4, EXPIRY: in_s(2)})
        await store.patch(f"{codes}/renewed", {EXPIRY: in_s(3600)})
        await store.put(f"{codes}/now", {"n": 5, EXPIRY: in_s(-5)})
        await gone(cluster, f"{codes}/soon")
        await gone(cluster, f"{codes}/now")
        if options is None:
            history = await store.history(f"{codes}/soon")
            assert [each["documentUpdateAction"] for each in history] == ["DELETE", "PUT"]
            assert history[0]["documentUpdateTimeMicros"] >= history[0][EXPIRY]
        for name in ("late", "never", "renewed"):
            assert (await store.get(f"{codes}/{name}")).version >= 0
        assert (await store.put(f"{codes}/soon", {"n": 6})).version == 2


async def test_a_factory_gives_its_documents_their_time(cluster: LocalCluster) -> None:
    async with Client(cluster.urls) as store:
        await store.declare("/visits", defaultExpirationSeconds=2)
        made = await store.post("/visits", {"by": "me"})
        assert in_s(0) < made.value[EXPIRY] < in_s(3)
        own = await store.put("/visits/own", {EXPIRY: in_s(3600)})
        assert own.value[EXPIRY] > in_s(3000)
        lines = await store.bulk([{"op": "PUT", "link": "/visits/b", "body": {}}])
        assert lines[0]["status"] == 201
        await gone(cluster, made.value["documentSelfLink"])
        await gone(cluster, "/visits/b")
        assert (await store.get("/visits/own")).version == 0
        with pytest.raises(RequestFailed, match="whole number"):
            await store.json("POST", "/core/factories",
                             {"path": "/odd", "defaultExpirationSeconds": -1})  # fmt: skip


async def test_an_expiry_survives_the_owner(cluster: LocalCluster) -> None:
    async with Client(cluster.urls) as store:
        await store.declare("/codes")
        await store.put("/codes/a", {EXPIRY: in_s(4)})
        owner = await asyncio.to_thread(cluster.owner_of, "/codes/a")
        await asyncio.to_thread(cluster.kill, owner)
        rest = [node for node in cluster.nodes if node is not owner]

        def is_gone() -> bool:
            return all(page_of(f"{node.url}/codes/a").get("status") == 404 for node in rest)

        await asyncio.to_thread(until, is_gone)


async def test_a_factory_that_demands_fences_keeps_nothing_for_ever(cluster: LocalCluster) -> None:
    """Its documents stayed: their deletion came without a Fence, and was refused."""
    async with Client(cluster.urls) as store:
        await store.declare("/fenced-codes")
        await store.put("/fenced-codes/plain", {EXPIRY: in_s(4)})
        declaration = {"path": "/fenced-codes", "requiresFence": True}
        async with store.lease() as lease:
            await store.put("/fenced-codes/leased", {}, lease=lease)
            await store.json("PUT", "/core/factories/fenced-codes", declaration)
            await store.put("/fenced-codes/fenced", {EXPIRY: in_s(2)}, fence="locks/l:7")
        await gone(cluster, "/fenced-codes/fenced")
        await gone(cluster, "/fenced-codes/plain")
        await gone(cluster, "/fenced-codes/leased")
        with pytest.raises(RequestFailed, match="token 7 has been seen"):
            await store.put("/fenced-codes/fenced", {}, fence="locks/l:6")


async def test_what_cannot_be_deleted_keeps_nothing_else_waiting(cluster: LocalCluster) -> None:
    """Of a factory that was deleted there were more than one look takes, and nothing else went."""
    async with Client(cluster.urls) as store:
        await store.declare("/gone")
        await store.declare("/other-codes")
        over = in_s(5)
        lines = [{"op": "PUT", "link": f"/gone/{n}", "body": {EXPIRY: over}} for n in range(600)]
        assert {each["status"] for each in await store.bulk(lines)} == {201}
        await store.delete("/core/factories/gone")
        assert in_s(0) < over
        await store.put("/other-codes/a", {EXPIRY: in_s(6)})
        await gone(cluster, "/other-codes/a")
