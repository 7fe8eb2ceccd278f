"""Offsets whose owner has just died: the true value is shown, or none."""

import re
import signal
from itertools import count

import pytest

from docstore.client import Client, LocalCluster, RequestFailed
from tests.docstore.client.groups.conftest import until_async
from tests.docstore.client.groups.test_commands import metrics

PARTITIONS = 12
AT_ONCE = {"Docstore-Timeout-Ms": "150"}


async def test_an_unreadable_offset_or_lag_is_not_shown_as_less() -> None:
    """Once, the offset was shown as -1, and the lag without the unread partitions."""
    with LocalCluster(3) as nodes:
        async with Client(nodes.urls[:1]) as client:
            topic = {"name": "t", "partitions": PARTITIONS, "replicationFactor": 1}
            await client.json("POST", "/core/streams", topic)
            group = await _made(client, nodes)
            nodes.kill(nodes.nodes[2])
            ends: set[int | None] = set()

            async def is_whole() -> bool:
                try:
                    page = await client.json("GET", f"{group}/offsets", **AT_ONCE)
                except RequestFailed as error:
                    if error.status not in (503, 504):
                        raise
                    return False
                assert [each["offset"] for each in page["offsets"]] == [1] * PARTITIONS
                ends.update(each["end"] for each in page["offsets"])
                return True

            async def has_lag() -> bool:
                text = await metrics(nodes.urls[0])
                lags = re.findall(r"^docstore_group_lag_records\{.*\} (.*)$", text, re.MULTILINE)
                assert lags in ([], [str(3 * PARTITIONS)])
                return bool(lags)

            await until_async(is_whole)
            assert ends == {4, None}
            assert not await has_lag()
            nodes.start(nodes.nodes[2])
            await until_async(has_lag)


async def test_a_deletion_of_a_group_with_unreachable_offsets_is_504() -> None:
    with LocalCluster(3) as nodes:
        async with Client(nodes.urls[:1]) as client:
            await client.json("POST", "/core/streams", {"name": "t", "partitions": PARTITIONS})
            group = await _made(client, nodes)
            assert nodes.nodes[2].process is not None
            nodes.nodes[2].process.send_signal(
                signal.SIGSTOP
            )  # A killed node would be detected sooner.
            with pytest.raises(RequestFailed, match="504 the group is deleted, its offsets may"):
                await client.json("DELETE", group, **AT_ONCE)


async def _made(client: Client, nodes: LocalCluster) -> str:
    """Create a group that the first node owns, with an offset for each partition."""
    for number in count():
        group = f"/core/groups/g{number}"
        if nodes.owner_of(group) is nodes.nodes[0]:
            break
    name = group.rpartition("/")[2]
    await client.json("POST", "/core/groups", {"name": name, "topics": ["t"]})
    for partition in range(PARTITIONS):
        records = {"records": [{"value": number} for number in range(4)]}
        await client.json("POST", f"/core/streams/t/partitions/{partition}/records", records)
        reset = {"kind": "ResetRequest", "offset": 1}
        await client.json("PATCH", f"{group}/offsets/t/{partition}", reset)
    return group
