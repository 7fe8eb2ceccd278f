"""Factories are known on every node, also where their declarations are not held."""

from pathlib import Path

from docstore.client import Client, LocalCluster


async def test_every_node_executes_for_factories_that_it_does_not_hold(tmp_path: Path) -> None:
    with LocalCluster(5, tmp_path, ("--replication-factor", "3")) as group:
        async with Client(group.urls[:1]) as store:  # No other node is asked for it.
            await store.declare("/notes", schema={"type": "object"})
            for number in range(60):
                assert (await store.put(f"/notes/{number}", {"n": number})).version == 0
            stricter = {"type": "object", "required": ["n"]}
            await store.put("/core/factories/notes", {"path": "/notes", "schema": stricter})
            bare = [{"op": "PUT", "link": f"/notes/{number}", "body": {}} for number in range(60)]
            for url in group.urls:  # At once: it was acknowledged.
                async with Client([url]) as other:
                    assert {line["status"] for line in await other.bulk(bare)} == {422}
            await store.delete("/core/factories/notes")
            for url in group.urls:
                async with Client([url]) as other:
                    assert {line["status"] for line in await other.bulk(bare)} == {404}
