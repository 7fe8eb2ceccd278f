"""A node that comes back at another port than the one under which its group knows it."""

from pathlib import Path

from docstore.client import LocalCluster
from docstore.client.local import CLAIM, claim_ports


async def test_a_start_at_another_port_is_logged(tmp_path: Path) -> None:
    with LocalCluster(1, tmp_path) as group, claim_ports() as claim:
        [node] = group.nodes
        assert "another port" not in node.last_words()
        group.kill(node)
        known, node.url = node.url, f"http://127.0.0.1:{claim.getsockname()[1] - CLAIM}"
        group.start(node)
        group.wait_ready()
        [line] = [each for each in node.last_words().splitlines() if "another port" in each]
    assert f'"known": "{known}"' in line
    assert f'"here": "{node.url}"' in line
