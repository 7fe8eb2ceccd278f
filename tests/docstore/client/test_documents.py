"""Documents, lists, queries and changes through the client, at three real nodes."""

from collections.abc import Iterator
from contextlib import aclosing

import pytest

from docstore.client import (
    Client,
    Document,
    Found,
    LocalCluster,
    NotFound,
    PreconditionFailed,
    RequestFailed,
)


@pytest.fixture(scope="module")
def group() -> Iterator[LocalCluster]:
    with LocalCluster(3, settings=("--slots", "16")) as nodes:
        yield nodes


async def filled(store: Client, factory: str, size: int) -> list[Document]:
    """Return the documents of a new factory in the order of their links."""
    await store.declare(factory)
    return [
        await store.put(f"{factory}/{number:03}", {"n": number, "third": number % 3})
        for number in range(size)
    ]


async def test_a_document_is_read_with_its_etag(store: Client) -> None:
    await store.declare("/notes")
    first = await store.put("/notes/a", {"n": 1}, if_none_match="*")
    assert (first.link, first.version, first["n"]) == ("/notes/a", 0, 1)
    second = await store.patch("/notes/a", {"n": 2}, if_match=first.etag)
    with pytest.raises(PreconditionFailed):
        await store.put("/notes/a", {"n": 3}, if_match=first.etag)
    with pytest.raises(PreconditionFailed):
        await store.put("/notes/a", {"n": 3}, if_none_match="*")
    assert await store.get("/notes/a") == second
    assert (await store.get("/notes/a", version=0))["n"] == 1
    await store.delete("/notes/a")
    with pytest.raises(NotFound):
        await store.get("/notes/a")


async def test_a_list_has_documents_with_tags_and_continues_after_any(store: Client) -> None:
    written = await filled(store, "/listed", 25)
    found = store.ls("/listed", page=10)
    read: list[Document] = []
    async for document in found:
        read.append(document)
        if len(read) == 13:
            break
    read += [each async for each in store.ls("/listed", cursor=found.cursor, page=4)]
    assert [(each.link, each.etag) for each in read] == [(each.link, each.etag) for each in written]
    assert [link async for link in store.links("/listed")] == [each.link for each in written]
    changed = await store.patch(read[0].link, {"n": 100}, if_match=read[0].etag)
    assert changed["n"] == 100


@pytest.mark.parametrize("order_by", ["", "n desc"])
async def test_a_query_continues_within_its_page(store: Client, order_by: str) -> None:
    factory = "/asked-ordered" if order_by else "/asked"
    written = await filled(store, factory, 30)

    def asked(cursor: str = "") -> Found:
        order = {"order_by": order_by, "select": "n"}
        return store.query(factory, filter="third eq 1", page=4, cursor=cursor, **order)

    found = asked()
    read: list[Document] = []
    async for document in found:
        read.append(document)
        if len(read) == 6:
            break
    await store.put(
        f"{factory}/999", {"n": 999, "third": 1}
    )  # It is newer than the cut of the query.
    again = [each async for each in asked(found.cursor)]
    assert again[:2] == read[4:]
    wanted = written[1::3][:: -1 if order_by else 1]
    assert [each.value for each in read[:4] + again] == [
        {"documentSelfLink": each.link, "n": each["n"]} for each in wanted
    ]
    assert [each.etag for each in read[:4] + again] == [each.etag for each in wanted]


async def test_a_finished_query_continues_with_nothing(store: Client) -> None:
    await filled(store, "/few", 3)
    found = store.query("/few", limit=2, page=1)
    assert [each["n"] async for each in found] == [0, 1]
    assert [each async for each in store.query("/few", cursor=found.cursor)] == []
    with pytest.raises(RequestFailed, match="filter"):
        await anext(store.query("/few", filter="n eq"))


async def test_changes_are_followed_from_the_position_of_any_change(store: Client) -> None:
    written = await filled(store, "/seen", 120)
    await store.delete("/seen/000")
    seen, since = set[tuple[str, int]](), "earliest"
    while len(seen) < 121:
        now = list[tuple[str, int]]()
        async with aclosing(store.follow("/seen", since=since)) as following:
            async for change in following:
                now.append((change.link, change.version))
                since = change.position
                if len(now) == 70 or len(seen.union(now)) == 121:
                    break
        assert len(set(now)) == len(now)  # Changes before a position may be repeated later.
        seen.update(now)
    assert seen == {(each.link, 0) for each in written} | {("/seen/000", 1)}


async def test_a_change_has_its_version_and_body(store: Client) -> None:
    await store.declare("/shown")
    await store.put("/shown/a", {"n": 1})
    await store.put("/shown/a", {"n": 2})
    async with aclosing(store.follow("/shown", since="earliest", where="n > 1")) as following:
        change = await anext(following)
    assert (change.link, change.version, change.body, change.deleted) == (
        "/shown/a", 1, {"n": 2}, False,
    )  # fmt: skip
    assert change.line["documentUpdateTimeMicros"] == change.time_us > 0
    with pytest.raises(RequestFailed, match="yesterday"):
        await anext(store.follow("/shown", since="yesterday"))
