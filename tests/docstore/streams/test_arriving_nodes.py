"""Topics that wait for nodes, on a group that grows."""

from pathlib import Path

from docstore.client import Client, LocalCluster
from tests.docstore.watching import page_of, until


async def test_f01_a_topic_waits_for_nodes_and_is_provisioned_unaided_when_they_arrive(
    tmp_path: Path,
) -> None:
    with LocalCluster(1, tmp_path) as group:
        [url] = group.urls
        async with Client(group.urls) as store:
            asked = {"name": "f01", "replicationFactor": 2}
            page = await store.json("POST", "/core/streams", asked)
            assert page["resolution"] == "insufficient-resources"
            group.add()
            until(lambda: page_of(f"{url}/core/streams/f01").get("resolution") == "provisioned")
            async with store.producer("f01") as producer:
                sent = await producer.send(None, 1)
            assert sent.result().offset == 0
            [partition] = page_of(f"{url}/core/streams/f01")["partitions"]
            assert sorted(partition["replicas"]) == ["n1", "n2"]
