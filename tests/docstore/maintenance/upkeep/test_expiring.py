"""Real nodes delete expired documents once, and not early."""

import asyncio
import time

import pytest

from docstore.client import Client, LocalCluster, RequestFailed
from tests.docstore.watching import page_of, start_all, until

LEVEL_1 = ["PERSISTENCE", "REPLICATION"]
EXPIRY = "documentExpirationTimeMicros"


@pytest.fixture
def cluster(group: LocalCluster) -> LocalCluster:
    """Return three running nodes."""
    start_all(group)
    return group


def in_s(seconds: float) -> int:
    return int((time.time() + seconds) * 1e6)


async def gone(cluster: LocalCluster, link: str) -> None:
    def is_gone() -> bool:
        return all(page_of(f"{node.url}{link}").get("status") == 404 for node in cluster.nodes)

    await asyncio.to_thread(until, is_gone)


@pytest.mark.parametrize("options", [None, LEVEL_1])
async def test_a_document_is_deleted_when_it_expires(
    cluster: LocalCluster, options: list[str] | None
) -> None:
    codes = "/codes-of-owners" if options is None else "/codes-of-all"
    async with Client(cluster.urls) as store:
        await store.declare(codes, options=options or None)
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


async def test_a_factory_sets_the_default_expiry_of_its_documents(cluster: LocalCluster) -> None:
    async with Client(cluster.urls) as store:
        await store.declare("/visits", default_expiration_seconds=2)
        made = await store.post("/visits", {"by": "me"})
        assert in_s(0) < made.value[EXPIRY] < in_s(3)
        own = await store.put("/visits/own", {EXPIRY: in_s(3600)})
        assert own.value[EXPIRY] > in_s(3000)
        lines = await store.bulk([{"op": "PUT", "link": "/visits/b", "body": {}}])
        assert lines[0]["status"] == 201
        await gone(cluster, made.value["documentSelfLink"])
        await gone(cluster, "/visits/b")
        assert (await store.get("/visits/own")).version == 0
        with pytest.raises(RequestFailed, match="defaultExpirationSeconds must be"):
            await store.json("POST", "/core/factories",
                             {"path": "/odd", "defaultExpirationSeconds": -1})  # fmt: skip


async def test_a_repeated_request_with_a_key_keeps_its_first_expiry(
    cluster: LocalCluster,
) -> None:
    async with Client(cluster.urls) as store:
        for path in ("/calls", "/calls:"):
            await store.declare(path, default_expiration_seconds=3600)
        lines = [{"op": "PUT", "link": f"/calls:/a~{n}", "body": {}} for n in range(2)]
        alone = {"op": "PUT", "link": "/calls/a", "body": {"by": "me"}, "key": "k"}
        both = [(await store.bulk([alone]), await store.atomic(lines, key="k")) for _ in range(2)]
        assert both[0] == both[1]
        for link in ("/calls/a", "/calls:/a~0"):
            found = await store.get(link)
            assert (found.version, found.value[EXPIRY] > in_s(3000)) == (0, True)


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


async def test_documents_of_a_factory_that_requires_fences_expire(cluster: LocalCluster) -> None:
    """Once, such documents stayed: their deletion had no Fence, and was refused."""
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


async def test_documents_of_a_deleted_factory_expire(cluster: LocalCluster) -> None:
    """Once, their deletion was retried for ever; more of them than one pass blocked all others."""
    async with Client(cluster.urls) as store:
        for level, path in ((LEVEL_1, "/gone-1"), (None, "/gone-3")):
            await store.declare(path, options=level or None)
        over = in_s(5)
        links = [f"{path}/{n}" for path in ("/gone-1", "/gone-3") for n in range(300)]
        lines = [{"op": "PUT", "link": link, "body": {EXPIRY: over}} for link in links]
        assert {each["status"] for each in await store.bulk(lines)} == {201}
        before = await expired(store, cluster)
        for name in ("gone-1", "gone-3"):
            await store.delete(f"/core/factories/{name}")
        assert in_s(0) < over
        async with asyncio.timeout(30):
            while await expired(store, cluster) < before + len(links):
                await asyncio.sleep(0.05)
        await store.json("POST", "/core/factories", {"path": "/gone-3"}, Prefer="recreate")
        assert [each async for each in store.ls("/gone-3")] == []


@pytest.mark.parametrize(("behavior", "left"), [("delete", []), ("release", [{"n": 1}])])
async def test_attached_documents_of_a_deleted_factory_end_with_their_lease(
    cluster: LocalCluster, behavior: str, left: object
) -> None:
    """Once, the document kept its link to the ended lease, which was never deleted."""
    path = f"/gone-{behavior}"
    async with Client(cluster.urls) as store:
        await store.declare(path)
        async with store.lease(behavior=behavior) as lease:
            made = await store.put(f"{path}/a", {"n": 1}, lease=lease)
            assert made.value["documentLeaseLink"] == lease.link
            await store.delete(f"/core/factories/{path[1:]}")
        async with asyncio.timeout(30):
            await changed(store, f"{path}/a")
        await store.json("POST", "/core/factories", {"path": path}, Prefer="recreate")
        found = [each.value.items() async for each in store.ls(path)]
        authors = [{k: v for k, v in each if not k.startswith("document")} for each in found]
        assert authors == left
        assert "documentLeaseLink" not in [name for each in found for name, _ in each]


async def changed(store: Client, link: str) -> None:
    """Return once a document has a second version, even without its factory."""
    async for found in store.changes(link, since="earliest", wait_s=1):
        if any(each["documentVersion"] == 1 for each in found.changes):
            return


async def expired(store: Client, cluster: LocalCluster) -> int:
    """Return the number of expired documents that all nodes have deleted."""
    total = 0
    for url in cluster.urls:
        _, _, text = await store.once(url, "GET", "/metrics", timeout_s=10)
        name = "\ndocstore_documents_expired_total "
        total += int(text.decode().partition(name)[2].split()[0])
    return total
