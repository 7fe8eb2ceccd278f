"""Groups on one machine, several at once: the ports of each are its own, even while it is down."""

import random
from pathlib import Path

import pytest

from docstore.client.local import LocalCluster


def test_two_groups_never_take_the_same_ports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = []
    for _ in range(2):  # Both draw the same numbers; nothing of the first runs but its claims.
        monkeypatch.setattr(random, "randrange", random.Random(7).randrange)
        groups.append(LocalCluster(2, tmp_path))
    assert set(groups[0].urls).isdisjoint(groups[1].urls)
