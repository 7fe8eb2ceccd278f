"""A node learns its group on a disk that has no room for it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from docstore.config import Config
from docstore.errors import BadConfig, DiskFull
from docstore.model.address import Address
from docstore.node.members.founding import Founding, identity
from docstore.storage.store import Then, Write
from tests.memory.memory import MemoryStore


class FullDisk(MemoryStore):
    """A store that has no room for a while."""

    is_full = True

    def submit(self, writes: Sequence[Write], then: Then) -> None:
        """Refuse a batch while there is no room."""
        if self.is_full:
            asyncio.get_running_loop().call_soon(then, DiskFull("no room"))
        else:
            super().submit(writes, then)


async def test_a_group_is_founded_as_soon_as_there_is_room_to_store_it(tmp_path: Path) -> None:
    at = Address("h", 1)
    config = Config(data=tmp_path, advertise=at, peer_advertise=at, gossip_advertise=at)
    store = FullDisk()
    recovered = await store.open()
    founding = Founding(
        config, "a", recovered, learnt=lambda packed: None, outdated=lambda boot: None
    )
    founded = asyncio.create_task(founding.configuration(store))
    async with asyncio.timeout(10):
        while "the disk is full" not in founding.why_not():
            await asyncio.sleep(0.01)
        assert not founded.done()
        store.is_full = False
        configuration = await founded
    assert [member.id for member in configuration.members] == ["a"]
    assert (await store.recover()).configuration
    assert "full" not in founding.why_not()


@pytest.mark.parametrize("content", [b"\xff\xfe\xff", b"a b\n", b"/etc\n"])
async def test_a_directory_whose_node_has_no_name_that_can_be_is_refused(
    tmp_path: Path, content: bytes
) -> None:
    """Bytes that are no text ended the start in a traceback; others became the node's name."""
    at = Address("h", 1)
    config = Config(data=tmp_path, advertise=at, peer_advertise=at, gossip_advertise=at)
    (tmp_path / "node-id").write_bytes(content)
    with pytest.raises(BadConfig, match=r"node-id must contain 1 to 64"):
        identity(config, await MemoryStore().open())
