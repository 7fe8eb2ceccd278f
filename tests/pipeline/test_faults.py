"""Faults during a read or a write: lost nodes, broken lines, moved slots.

Scenarios A15, A17, A18 and A35.
"""

import http.client
import re
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from docstore.client.local import LocalCluster
from docstore.pipeline import scanning
from docstore.pipeline.aggregating import totals_of
from docstore.pipeline.group_client import GroupClient, GroupError, Incomplete
from docstore.pipeline.jobs.viewing import GroupedView, cut_of_query
from docstore.pipeline.jobs.work import Work
from docstore.pipeline.options import Options
from docstore.pipeline.planning import shares
from docstore.query.aggregates import grouping_of
from tests.pipeline.stage import Stage


def filled(spark: Any, cluster: LocalCluster) -> Stage:
    """Return a factory of three thousand documents."""
    stage = Stage.of(spark, cluster, "/filled")
    for first in range(0, 3000, 1000):
        stage.put({f"{n:05d}": {"n": n} for n in range(first, first + 1000)})
    return stage


@pytest.fixture(scope="module")
def whole(spark: Any, cluster: LocalCluster) -> Stage:
    """Nodes that all tests share: only the connections to them fail."""
    return filled(spark, cluster)


@pytest.fixture
def own(spark: Any, tmp_path: Path) -> Iterator[Stage]:
    """A group for one test, with nodes to kill."""
    with LocalCluster(3, tmp_path / "own") as cluster:
        yield filled(spark, cluster)


def plan_of(stage: Stage) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    plan = stage.group.json("GET", "/core/spark/plan")
    return plan, [(slot, n) for slot, n in enumerate(plan["ends"]) if n]


def request_of(stage: Stage) -> dict[str, Any]:
    return {"prefix": stage.path + "/", "columns": ["documentSelfLink", "slot"]}


def links(share: scanning.ScanShare) -> list[str]:
    return [link for batch in scanning.batches(share) for link in batch.column(0).to_pylist()]


class BreakingProxy:
    """Passes on to a node, and breaks the first connections after `after` bytes of the answer."""

    def __init__(self, url: str, after: int = 0, times: int = 0) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "", parts.port or 0)
        self._after, self._left = after, times
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.broken = 0
        self.longest = 0
        """Bytes of the longest answer that was passed on."""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """Serve one connection; to a node that is gone it is as broken as to one that goes now."""
        try:
            with client, socket.create_connection(self._target) as node:
                self._relay(client, node)
        except OSError:
            pass

    def _relay(self, client: socket.socket, node: socket.socket) -> None:
        threading.Thread(target=_pass_on, args=(client, node), daemon=True).start()
        passed = 0
        while data := node.recv(4096):
            if passed + len(data) >= self._after and self._left > 0:
                client.sendall(data[: self._after - passed])
                self._left -= 1
                self.broken += 1
                node.shutdown(socket.SHUT_RDWR)
                client.shutdown(socket.SHUT_RDWR)
                return
            passed += len(data)
            self.longest = max(self.longest, passed)
            client.sendall(data)


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(4096):
            sink.sendall(data)
    except OSError:
        pass


@pytest.mark.parametrize("after", [1, 900, 20_000, 60_000])
@pytest.mark.thorough
def test_a15_a_broken_scan_is_resumed(whole: Stage, after: int) -> None:
    plan, spans = plan_of(whole)
    proxy = BreakingProxy(plan["nodes"][0]["url"], after, 3)
    nodes = (scanning.ScanNode(proxy.url), scanning.ScanNode(plan["nodes"][1]["url"]))
    share = scanning.ScanShare(tuple(spans), nodes, request_of(whole), urls=(proxy.url,))
    found = links(share)
    proxy.close()
    assert proxy.broken >= 1
    assert found == links(scanning.ScanShare(tuple(spans), nodes[1:], request_of(whole)))
    assert len(set(found)) == len(found) == 3000


def test_a15_an_answer_without_its_end_is_never_a_whole_one(whole: Stage) -> None:
    plan, spans = plan_of(whole)
    proxy = BreakingProxy(plan["nodes"][0]["url"], 30_000, 1 << 30)
    share = scanning.ScanShare(
        tuple(spans),
        (scanning.ScanNode(proxy.url),),
        request_of(whole),
        urls=(proxy.url,),
        retries=1,
    )
    with pytest.raises((OSError, Incomplete, http.client.HTTPException, pa.ArrowException)):
        links(share)
    proxy.close()
    assert proxy.broken >= 2


def test_a_host_that_a_node_does_not_allow_fails_at_once(cluster: LocalCluster) -> None:
    url = cluster.urls[0]
    refused = r'requests_total\{method="GET",status="421"\} 1\n'
    with pytest.raises(GroupError, match="allowed_hosts"):  # To the resolver this is an address.
        GroupClient([url.replace("127.0.0.1", "0x7f.1")]).json("GET", "/core/spark/plan")
    with urllib.request.urlopen(f"{url}/metrics", timeout=5) as page:
        assert re.search(refused, page.read().decode())


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_a15_aggregates_count_nothing_twice_when_an_answer_breaks_off(
    whole: Stage, share: float
) -> None:
    grouping = grouping_of("count(*), sum(n)", "documentOwner")
    assert grouping is not None
    plan, spans = plan_of(whole)
    request = {
        "prefix": whole.path + "/", "aggregates": "count(*), sum(n)", "groupBy": "documentOwner",
    }  # fmt: skip
    urls = [node["url"] for node in plan["nodes"]]

    def totals(*nodes: str) -> Any:
        asked = tuple(scanning.ScanNode(url) for url in nodes)
        return totals_of(grouping, scanning.ScanShare(tuple(spans), asked, request, urls=nodes))

    honest = BreakingProxy(urls[0])
    full = totals(honest.url)
    honest.close()
    # The length of an answer depends on the owners, so it is broken at a share of it.
    proxy = BreakingProxy(urls[0], int(share * honest.longest), 3)
    found = totals(proxy.url, urls[1])
    proxy.close()
    assert proxy.broken >= 1
    assert sorted(found.rows()) == sorted(full.rows())
    assert sum(row[1] for row in found.rows()) == found.documents == 3000
    assert sum(row[2] for row in found.rows()) == sum(range(3000))


@pytest.mark.thorough
def test_a15_a_node_that_dies_after_the_plan_is_gone_around(own: Stage) -> None:
    table = own.load(partitions=6, retries=3)
    assert table.count() == 3000  # The plan is kept from here on, with all three nodes in it.
    own.cluster.kill(own.cluster.nodes[0])
    assert table.count() == 3000


def test_a17_a_copy_behind_the_cut_refuses(whole: Stage) -> None:
    plan, spans = plan_of(whole)
    ahead = [(slot, n + 5) for slot, n in spans]
    share = scanning.ScanShare(
        tuple(ahead), (scanning.ScanNode(plan["nodes"][0]["url"]),),
        {**request_of(whole), "catchUpMs": 50}, urls=tuple(whole.url.split(",")), retries=0,
    )  # fmt: skip
    with pytest.raises(GroupError, match="not-caught-up"):
        links(share)


def test_a18_slots_that_have_moved_are_read_where_they_are(spark: Any, tmp_path: Path) -> None:
    settings = ["--replication-factor", "3", "--slots", "64"]
    with LocalCluster(4, tmp_path / "moving", settings) as cluster:
        stage = Stage.of(spark, cluster, "/moving")
        stage.put({f"{n:05d}": {"n": n} for n in range(1000)})
        plan, spans = plan_of(stage)
        urls = stage.url.split(",")
        options = Options({"url": ",".join(urls[:3]), "partitions": "4"})
        planned = shares(plan, spans, request_of(stage), options, is_log=False)
        leaver = cluster.nodes[3]
        group = GroupClient(urls[:3])
        asked = {"kind": "RemoveMemberRequest", "id": leaver.name}
        group.json("PATCH", "/core/node-groups/default", asked)
        deadline = time.monotonic() + 60
        while group.json("GET", "/core/node-groups/default")["configuration"]["stage"] != "stable":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        cluster.kill(leaver)
        # As a plan of before has it: each share asks nodes that may not hold its slots any more.
        wrong = [
            scanning.ScanShare(share.spans, (share.nodes[-1],), share.request, urls=tuple(urls[:3]))
            for share in planned
            if share.nodes[-1].url != leaver.url
        ]
        rest = [share for share in planned if share.nodes[-1].url == leaver.url]
        found = [link for share in wrong + rest for link in links(share)]
        assert len(set(found)) == len(found) == 1000
        grouping = grouping_of("count(*)", "")
        assert grouping is not None
        counting = {"prefix": "/moving/", "aggregates": "count(*)"}
        counted = [
            totals_of(grouping, replace(share, request=counting)).documents
            for share in wrong + rest
        ]
        assert sum(counted) == 1000


@pytest.mark.thorough
def test_a35_a_view_survives_owners_and_its_own_driver(own: Stage, tmp_path: Path) -> None:
    """A query is stopped in its middle and begun anew, and owners die, under a writer."""
    work = Work(own.spark, own.url, "matview", "a35")
    view = GroupedView(work, own.path, "SELECT n % 7 AS k, n FROM documents", "k", "n", "n long")
    Stage.of(own.spark, own.cluster, "/own-view")
    over = threading.Event()

    def write() -> None:
        turn = 0
        while not over.is_set():
            own.bulk(
                {"link": f"{own.path}/{n:05d}", "body": {"n": n + turn}}
                for n in range(turn % 9, 3000, 9)
            )
            own.bulk([{"op": "DELETE", "link": f"{own.path}/{turn % 3000:05d}"}])
            turn += 1

    writer = threading.Thread(target=write)
    writer.start()
    checkpoint = str(tmp_path / "checkpoint")
    try:
        for number in (1, 2):
            query = view.start("/own-view", checkpoint, 60.0, 0.2)
            deadline = time.monotonic() + 180
            while len(query.recentProgress) < 3:
                assert time.monotonic() < deadline
                assert query.exception() is None
                time.sleep(0.05)
            own.cluster.kill(own.cluster.nodes[number])
            own.cluster.start(own.cluster.nodes[number])
            own.cluster.wait_ready()
            query.stop()  # In the middle of its work.
    finally:
        over.set()
        writer.join()
    last = view.start("/own-view", checkpoint, 0.0, 1.0)
    assert last.awaitTermination(120)
    assert last.exception() is None
    assert view.differences("/own-view", cut_of_query(last)) == 0
