"""Real nodes at levels 1 and 2: alone they go on, together they agree, and nothing is lost."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docstore.client import Client, LocalCluster, RequestFailed
from docstore.client.local import LocalNode
from tests.docstore.watching import page_of, start_all, until

LEVEL_1 = ["PERSISTENCE", "REPLICATION"]
LEVEL_2 = [*LEVEL_1, "OWNER_SELECTION"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three nodes that serve."""
    with LocalCluster(3, tmp_path) as group:
        yield group


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(3, tmp_path_factory.mktemp("group")) as group:
        asyncio.run(declared(group))
        yield group


@pytest.fixture
def whole(group: LocalCluster) -> LocalCluster:
    """Three nodes for tests that meet no document of each other's, with a factory of each level."""
    start_all(group)
    return group


async def declared(cluster: LocalCluster) -> None:
    async with Client(cluster.urls) as store:
        await store.declare("/carts", options=LEVEL_1)
        await store.declare("/sessions", options=LEVEL_2)
        await store.declare("/orders")
    for node in cluster.nodes:
        async with Client([node.url]) as store:
            await store.put("/carts/known", {})
            await store.put("/sessions/known", {})
    until(lambda: all(shown(node, "/carts/known") for node in cluster.nodes))
    until(lambda: {shown(n, "/carts/known").get("documentVersion") for n in cluster.nodes} == {2})


def shown(node: LocalNode, link: str) -> dict[str, Any]:
    """Return a document as this very node has it."""
    found: Any = page_of(f"{node.url}{link}", {"Docstore-Consistency": "stale"})
    return dict(found)


def conflicts(node: LocalNode, link: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page_of(f"{node.url}{link}/conflicts").get("conflicts", [])
    return found


@pytest.mark.parametrize(
    "factory", ["/carts", pytest.param("/sessions", marks=pytest.mark.thorough)]
)
async def test_both_sides_write_and_become_equal_again(cluster: LocalCluster, factory: str) -> None:
    await declared(cluster)
    first, *others = cluster.nodes
    link = f"{factory}/a"
    async with Client(cluster.urls) as store:
        await store.put(link, {"by": "all"})
    # At level 1 the answer promises one disk only: a side without the document may not patch it.
    until(lambda: all(shown(node, link).get("by") == "all" for node in cluster.nodes))
    for node in others:
        cluster.kill(node)
    async with Client([first.url], timeout_s=10) as store:
        for turn in range(20):
            await store.patch(link, {"by": "first", "turn": turn})
    cluster.kill(first)
    for node in others:
        cluster.start(node)
    cluster.wait_ready()
    async with Client([others[0].url, others[1].url], timeout_s=10) as store:
        last = await store.patch(link, {"by": "others"})
    cluster.start(first)

    def agree() -> bool:
        seen = {str(shown(node, link)) for node in cluster.nodes}
        lost = {str(conflicts(node, link)) for node in cluster.nodes}
        return len(seen) == len(lost) == 1 and all(conflicts(n, link) for n in cluster.nodes)

    until(agree)
    winner, [loser] = shown(first, link), conflicts(first, link)
    assert {winner["by"], loser["by"]} == {"first", "others"}
    if factory == "/carts":
        assert (winner["by"], winner["turn"]) == ("first", 19)  # The longer branch wins.
    assert last.value["by"] in (winner["by"], loser["by"])
    async with Client([first.url]) as store:
        _, _, metrics = await store.request("GET", "/metrics")
    assert b"docstore_documents_in_conflict 1" in metrics

    async with Client(cluster.urls) as store:
        await store.json("DELETE", f"{link}/conflicts")
    until(lambda: not any(conflicts(n, link) for n in cluster.nodes))
    assert shown(others[1], link)["by"] == winner["by"]


def has(node: LocalNode, number: int) -> bool:
    return bool(shown(node, f"/carts/{number}").get("n") == number)


@pytest.mark.thorough
async def test_level_1_serves_alone_and_loses_nothing_over_kills(cluster: LocalCluster) -> None:
    await declared(cluster)
    first, *others = cluster.nodes
    for node in others:
        cluster.kill(node)
    async with Client([first.url], timeout_s=10) as store:
        for number in range(200):
            await store.put(f"/carts/{number}", {"n": number})
        with pytest.raises(RequestFailed) as refused:
            await store.put("/orders/a", {})
        assert refused.value.status in (503, 504)
    cluster.kill(first)
    for node in cluster.nodes:
        cluster.start(node)
    cluster.wait_ready()
    for node in others:
        until(lambda node=node: all(has(node, number) for number in range(200)))
    async with Client([others[1].url]) as store:
        assert len([each async for each in store.ls("/carts")]) == 201
        history = await store.history("/carts/known")
        assert [each["documentVersion"] for each in history] == [2, 1, 0]
        assert (await store.get("/carts/known", version=1)).version == 1


@pytest.mark.thorough
async def test_a_node_that_starts_alone_still_knows_its_factories(cluster: LocalCluster) -> None:
    await declared(cluster)
    first, *others = cluster.nodes
    for node in cluster.nodes:
        cluster.kill(node)
    cluster.start(first)
    until(lambda: shown(first, "/carts/known"))
    async with Client([first.url]) as store:
        for link in ("/carts/known", "/sessions/known", "/carts/new"):
            assert (await store.put(link, {"by": "one"})).value["by"] == "one"
            assert (await store.get(link)).value["by"] == "one"
    for node in others:
        cluster.start(node)
    cluster.wait_ready()
    for node in others:
        until(lambda node=node: shown(node, "/carts/new").get("by") == "one")
        until(lambda node=node: shown(node, "/sessions/known").get("by") == "one")


async def test_level_2_survives_a_lost_disk_when_two_copies_were_reported(
    whole: LocalCluster,
) -> None:
    async with Client(whole.urls) as store:
        replicas = {}
        for number in range(50):
            _, headers, _ = await store.request(
                "PUT", f"/sessions/{number}", b"{}", {"Content-Type": "application/json"}
            )
            replicas[number] = int(headers["Docstore-Replicas"])
    assert min(replicas.values()) >= 2
    lost = whole.nodes[1]
    whole.kill(lost)
    async with Client([whole.nodes[0].url, whole.nodes[2].url]) as store:
        for number in range(50):
            assert (await store.get(f"/sessions/{number}")).version == 0


async def test_the_level_of_documents_stays(whole: LocalCluster) -> None:
    async with Client(whole.urls) as store:
        await store.put("/orders/a", {"n": 1})
        for path, options in (("/orders", LEVEL_1), ("/carts", LEVEL_2), ("/sessions", None)):
            name = path[1:]
            declaration = {"path": path} | ({"options": options} if options else {})
            with pytest.raises(RequestFailed, match="another level") as refused:
                await store.put(f"/core/factories/{name}", declaration)
            assert refused.value.status == 409
        with pytest.raises(RequestFailed, match="no conflicts"):
            await store.json("GET", "/orders/a/conflicts")
        with pytest.raises(RequestFailed, match="must include OWNER_SELECTION"):
            await store.json("POST", "/core/factories",
                             {"path": "/odd", "options": [*LEVEL_1, "ENFORCE_QUORUM"]})  # fmt: skip
        await store.declare("/empty", options=LEVEL_1)
        await store.put("/core/factories/empty", {"path": "/empty"})


async def test_conditions_and_keys_hold_at_level_1(whole: LocalCluster) -> None:
    async with Client(whole.urls[:1]) as store:
        made = await store.put("/carts/c", {"n": 1})
        await store.put("/carts/c", {"n": 2}, if_match=made.etag)
        with pytest.raises(RequestFailed) as refused:
            await store.put("/carts/c", {"n": 3}, if_match=made.etag)
        assert refused.value.status == 412
        for _ in range(3):
            again = await store.json("PATCH", "/carts/c", {"n": 4}, Idempotency_Key="k")
            assert again["documentVersion"] == 2
        await store.delete("/carts/c")
        with pytest.raises(RequestFailed) as gone:
            await store.get("/carts/c")
        assert gone.value.status == 404
        assert (await store.put("/carts/c", {"n": 5})).version == 4


@pytest.mark.thorough
@pytest.mark.parametrize("factory", ["/carts", "/sessions"])
async def test_documents_follow_the_group_when_it_changes(tmp_path: Path, factory: str) -> None:
    with LocalCluster(3, tmp_path, ("--replication-factor", "2")) as cluster:
        await declared(cluster)
        async with Client(cluster.urls) as store:
            for number in range(80):
                await store.put(f"{factory}/{number}", {"n": number})
        newcomer = cluster.add()
        until(lambda: roles(newcomer).get("n4") == "voter", 30.0)
        gone = cluster.nodes[0]
        async with Client([newcomer.url]) as store:
            change = {"kind": "RemoveMemberRequest", "id": gone.name}
            await store.json("PATCH", "/core/node-groups/default", change)
            until(lambda: "n1" not in roles(newcomer) and len(roles(newcomer)) == 3, 30.0)
            cluster.kill(gone)

            def all_there() -> bool:
                rest = cluster.nodes[1:]
                return all(
                    shown(rest[number % 3], f"{factory}/{number}").get("n") == number
                    for number in range(80)
                )

            def all_still_there() -> bool:
                return all(
                    shown(newcomer, f"{factory}/{number}").get("n") == number
                    for number in range(80)
                )

            until(all_there)
            assert len([each async for each in store.links(factory)]) == 81
            # Each comes to two of the three that are left: then one more may be lost.
            cluster.kill(cluster.nodes[1])
            until(all_still_there)


def roles(node: LocalNode) -> dict[str, str]:
    """Return member -> role once the group is at rest."""
    found: Any = page_of(f"{node.url}/core/node-groups/default").get("configuration", {})
    stable = found.get("stage") == "stable"
    return {each["id"]: each["role"] for each in found["members"]} if stable else {}
