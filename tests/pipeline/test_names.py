"""A snapshot is read under the name that it was given, by every kind of read."""

import pytest

from docstore import pipeline
from docstore.client.local import LocalCluster
from docstore.pipeline import feeding
from docstore.pipeline.group_client import GroupClient, GroupError
from docstore.pipeline.options import Options
from docstore.pipeline.reading import snapshot_shares
from docstore.query.cut import unpack_cut
from tests.pipeline.stage import Stage

NAMES = ["v1&final", "v1", "a%20b", "a b", "a+b", "50%25", "50%", "c#", "a?b=c", "周五"]


def test_names_are_quoted_wherever_they_are_read(cluster: LocalCluster) -> None:
    stage = Stage.of(None, cluster, "/t-quoted")
    cuts = {}
    for name in NAMES:
        stage.put({"a": {"name": name}})
        cuts[name] = pipeline.snapshot(stage.url, name, ttl_s=60)
    assert len(set(cuts.values())) == len(NAMES)
    for name, cut in cuts.items():
        given = {"url": stage.url, "path": stage.path, "asof": name, "start": name, "end": name}
        ends = feeding.ends_of(Options(given))
        assert ends == (unpack_cut(cut), unpack_cut(cut))
        spans = {each for share in snapshot_shares(Options(given), {}) for each in share.spans}
        positions = enumerate(unpack_cut(cut).positions)
        assert spans == {(slot, n) for slot, (_, n) in positions if n}
    for name in NAMES:
        pipeline.drop_snapshot(stage.url, name)


@pytest.mark.parametrize("name", ["latest", "2026", "2026-11-20", "~d"])
def test_a_name_that_means_something_else_is_not_made(cluster: LocalCluster, name: str) -> None:
    url = cluster.urls[0]
    with pytest.raises(GroupError, match="a snapshot cannot be called"):
        pipeline.snapshot(url, name, ttl_s=60)
    page = {"documentSelfLink": name, "cut": GroupClient([url]).plan()["cut"]}
    with pytest.raises(GroupError, match="a snapshot cannot be called"):
        GroupClient([url]).json("POST", "/core/snapshots", page)
