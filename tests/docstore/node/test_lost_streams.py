"""A node whose file of streams is gone starts with a warning."""

from pathlib import Path

import pytest

from docstore.client import Client, LocalCluster


@pytest.mark.parametrize("lost", [("streams.db", "streams.db.life"), ("streams.db.life",)])
async def test_a_start_without_the_file_of_streams_is_logged(
    tmp_path: Path, lost: tuple[str, ...]
) -> None:
    """Pinned: the records of a topic with one replica were lost silently."""
    with LocalCluster(1, tmp_path) as group:
        [node] = group.nodes
        async with Client(group.urls) as client:
            await client.json("POST", "/core/streams", {"name": "t"})
        group.kill(node)
        assert "file of streams" not in node.last_words()
        for name in lost:
            (node.data / name).unlink()
        group.start(node)
        group.wait_ready()
        [line] = [each for each in node.last_words().splitlines() if "file of streams" in each]
    assert '"level": "warning"' in line
