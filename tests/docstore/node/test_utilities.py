"""Utilities of factories and documents, and pages of nodes through other nodes: a real group."""

import asyncio
import io
import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from docstore.cli.app import app
from docstore.cli.resync import follow, said
from docstore.cli.terminal import CommandFailed
from docstore.client import Client, LocalCluster
from docstore.client.local import LocalNode
from docstore.model.service import LEVEL_3
from tests.docstore.watching import page_of, start_all, until

FORWARDING = "/core/node-selectors/default/forwarding"
FILMS = {
    "path": "/films",
    "options": [*LEVEL_3, "INSTRUMENTATION"],
    "schema": {"properties": {"title": {"type": "string"}}},
}
LINKS = [f"/films/{number}" for number in range(20)]


@pytest.fixture(scope="module")
def group() -> Iterator[LocalCluster]:
    """Three nodes with a factory that is measured, one that is not, and documents."""
    with LocalCluster(3, settings=("--slots", "64")) as group:
        first = group.nodes[0]
        ask(first, "POST", "/core/factories", FILMS)
        ask(first, "POST", "/core/factories", {"path": "/plain"})
        ask(first, "PUT", "/plain/a", {})
        for link in LINKS:
            ask(first, "PUT", link, {"title": link})
        yield group


@pytest.fixture
def cluster(group: LocalCluster) -> LocalCluster:
    """Return the three nodes once all serve again."""
    start_all(group)
    return group


def ask(node: LocalNode, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """Return the page of an answer, whatever its status, with that in it."""
    raw = None if body is None else json.dumps(body).encode()
    heads = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(node.url + path, raw, heads, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return {**json.load(answer), "status": answer.status}
    except urllib.error.HTTPError as error:
        return {**json.load(error), "status": error.code}


def counts(node: LocalNode, path: str) -> dict[str, int]:
    """Return the counts of requests and failures of all owners, as a node shows them."""
    entries = page_of(f"{node.url}{path}/stats")["entries"]
    return {name: each["latestValue"] for name, each in entries.items() if name.endswith("Count")}


# Stats


def test_every_node_returns_the_stats_of_the_owners(cluster: LocalCluster) -> None:
    link = LINKS[0]
    before = counts(cluster.nodes[0], "/films")
    for node in cluster.nodes:
        assert ask(node, "GET", link)["status"] == 200
    assert ask(cluster.nodes[1], "PATCH", link, {"title": 7})["status"] == 422
    for node in cluster.nodes:
        assert counts(node, link) == {
            "GETrequestCount": 3, "PATCHfailureCount": 1, "PATCHrequestCount": 1,
            "PUTrequestCount": 1,
        }  # fmt: skip
        after = counts(node, "/films")
        assert after["GETrequestCount"] == before.get("GETrequestCount", 0) + 3
        assert after["PUTrequestCount"] == len(LINKS)
    page = page_of(f"{cluster.urls[2]}/films/stats")
    took = page["entries"]["PUToperationDurationMicros"]
    assert sum(took["logHistogram"]["bins"]) == took["version"] == len(LINKS)
    minutes = took["timeSeriesStats"]["bins"].values()
    assert sum(each["count"] for each in minutes) == len(LINKS)
    assert page["nodesUnheard"] == []


def test_a_hot_document_takes_hundreds_of_keys_and_shows_their_number(
    cluster: LocalCluster,
) -> None:
    first, second, _ = cluster.nodes
    for n in range(300):
        taken = ask(first, "PUT", "/plain/hot", {"n": n}, **{"Idempotency-Key": f"sale-{n}"})
        assert taken["status"] in {200, 201}
    again = ask(second, "PUT", "/plain/hot", {"n": 0}, **{"Idempotency-Key": "sale-0"})
    assert again["documentVersion"] == 0
    for node in cluster.nodes:
        assert counts(node, "/plain/hot")["idempotencyKeyCount"] == 300
    assert "idempotencyKeyCount" not in counts(first, "/plain/a")


def test_each_request_is_measured_where_its_document_is_owned(cluster: LocalCluster) -> None:
    answers = ask(cluster.nodes[0], "GET", f"{FORWARDING}?target=ALL&path=/films/stats")
    owners = [cluster.owner_of(link).name for link in LINKS]
    for name, page in answers["jsonResponses"].items():
        assert page["id"] == name
        measured = page["entries"].get("PUTrequestCount", {"latestValue": 0})
        assert measured["latestValue"] == owners.count(name)


def test_metrics_include_only_factories_with_stats(cluster: LocalCluster) -> None:
    lines = []
    for node in cluster.nodes:
        with urllib.request.urlopen(f"{node.url}/metrics", timeout=5) as answer:
            lines += answer.read().decode().splitlines()
    name = 'docstore_factory_requests_total{factory="/films",method="PUT"} '
    assert sum(float(line.removeprefix(name)) for line in lines if line.startswith(name)) == 20
    assert not any("/plain" in line for line in lines)


def test_a_factory_has_stats_only_while_its_options_say_so(cluster: LocalCluster) -> None:
    first, *_, last = cluster.nodes
    assert ask(first, "GET", "/plain/a")["status"] == 200
    assert counts(last, "/plain") == counts(last, "/plain/a") == {}
    options = {"options": FILMS["options"]}
    assert ask(last, "PATCH", "/plain/config", options)["status"] == 200
    assert ask(first, "GET", "/plain/a")["status"] == 200
    assert counts(last, "/plain/a") == {"GETrequestCount": 1}
    assert ask(first, "PATCH", "/plain/config", {"options": LEVEL_3})["status"] == 200
    assert ask(last, "GET", "/plain/a")["status"] == 200
    assert counts(last, "/plain/a") == {"GETrequestCount": 1}


# Config


def test_a_change_of_config_is_in_force_on_every_node_at_once(cluster: LocalCluster) -> None:
    first, second, third = cluster.nodes
    config = {"retention": {"versions": 1}, "schema": {"required": ["title"]}}
    assert ask(first, "PATCH", "/plain/config", config)["status"] == 200
    for node in (second, third):
        assert ask(node, "PUT", "/plain/a", {})["status"] == 422
        assert page_of(f"{node.url}/plain/config")["retention"] == {"versions": 1}
    bad = {"retention": {"versions": "all"}}
    assert ask(second, "PATCH", "/plain/config", bad)["status"] == 400
    for node in cluster.nodes:
        assert page_of(f"{node.url}/plain/config")["retention"] == {"versions": 1}
    assert ask(third, "PATCH", "/plain/config", {"schema": None})["status"] == 200
    assert ask(first, "PUT", "/plain/a", {})["status"] == 200


# Synchronization


def test_a_replica_that_does_not_answer_was_not_compared(cluster: LocalCluster) -> None:
    """Pinned: such a run was called finished, as if all replicas were alike."""
    link = LINKS[4]
    owner = cluster.owner_of(link)
    victim = next(node for node in cluster.nodes if node is not owner)
    cluster.kill(victim)
    done = ask(owner, "PATCH", f"{link}/synchronization", Prefer="wait=20")
    assert (done["status"], done["state"]) == (200, "FAILED")
    missed = f"{victim.name} did not answer: its replicas were not compared"
    assert done["errors"] == [missed]
    assert said(done).endswith(f"compared, 0 rows copied; {missed}")


def test_one_document_or_factory_is_repaired_and_any_node_tells(cluster: LocalCluster) -> None:
    first, second, third = cluster.nodes
    owner = cluster.owner_of(LINKS[3]).name
    for path, slots in (("/films", 64), (LINKS[3], 1)):
        target = f"{path}/synchronization"
        assert page_of(first.url + target)["last"] is None
        done = ask(second, "PATCH", target, Prefer="wait=20")
        assert (done["status"], done["state"]) == (200, "FINISHED")
        assert done["slots"] == {"total": slots, "synchronised": slots}
        for node in (first, third):
            page = page_of(node.url + target)
            assert (page["status"], page["last"]["id"]) == ("AVAILABLE", done["id"])
            assert page.get("owner") == (None if path == "/films" else owner)
    assert ask(first, "PATCH", "/films/none/synchronization")["status"] == 404
    # Each node shows the latest run, on whichever node it was started.
    again = ask(third, "PATCH", "/films/synchronization", Prefer="wait=20")
    assert page_of(f"{first.url}/films/synchronization")["last"]["id"] == again["id"]


# Forwarding


def test_a_request_is_forwarded_to_another_node(cluster: LocalCluster) -> None:
    for node in cluster.nodes:
        for other in cluster.nodes:
            query = f"target=PEER_ID&peer={other.name}&path=/core/management"
            assert ask(node, "GET", f"{FORWARDING}?{query}")["id"] == other.name
        for link in LINKS[:5]:
            query = f"target=KEY_HASH&link={link}&path=/core/management"
            owner = cluster.owner_of(link).name
            assert ask(node, "GET", f"{FORWARDING}?{query}")["id"] == owner
        merged = ask(node, "GET", f"{FORWARDING}?target=ALL&path=/core/node-groups/default")
        assert merged["jsonResponses"].keys() == {each.name for each in cluster.nodes}
        assert merged["failures"] == {}


def test_selectors_show_which_one_keeps_documents(cluster: LocalCluster) -> None:
    pages = {
        name: page_of(f"{cluster.urls[0]}/core/node-selectors/{name}")
        for name in ("default", "default-3x", "default-1x")
    }
    assert {name: page["keepsDocuments"] for name, page in pages.items()} == {
        "default": True, "default-3x": True, "default-1x": False,
    }  # fmt: skip
    assert {page["replicationFactor"] for page in pages.values()} == {3, 1}


# With nodes that are dead


def test_a_node_that_hangs_is_not_waited_for(cluster: LocalCluster) -> None:
    entry, _, hung = cluster.nodes
    assert hung.process is not None
    patience = {"Docstore-Timeout-Ms": "300"}
    hung.process.send_signal(signal.SIGSTOP)
    try:
        page = ask(entry, "GET", "/films/stats", **patience)
        assert (page["status"], page["nodesUnheard"]) == (200, [hung.name])
        query = f"target=PEER_ID&peer={hung.name}&path=/core/management"
        refused = ask(entry, "GET", f"{FORWARDING}?{query}", **patience)
        assert refused["status"] == 503
        assert "did not answer in time" in refused["detail"]
    finally:
        hung.process.send_signal(signal.SIGCONT)


def test_a_dead_node_is_named_and_no_other_answers_for_it(cluster: LocalCluster) -> None:
    entry, _, dead = cluster.nodes
    cluster.kill(dead)
    until(lambda: ask(entry, "GET", "/films/available")["status"] == 200)
    for link in LINKS:
        assert ask(entry, "GET", f"{link}/available")["status"] == 200
    query = f"target=PEER_ID&peer={dead.name}&path=/core/management"
    refused = ask(entry, "GET", f"{FORWARDING}?{query}")
    assert (refused["status"], refused["errorCode"]) == (503, "unavailable")
    merged = ask(entry, "GET", f"{FORWARDING}?target=ALL&path=/core/management")
    assert (merged["totalNodeCount"], merged["unavailableNodeCount"]) == (3, 1)
    assert merged["failures"].keys() == {dead.name}
    assert page_of(f"{entry.url}/films/stats")["nodesUnheard"] == [dead.name]
    for link in LINKS:  # Its slots have other owners by now.
        query = f"target=KEY_HASH&link={link}&path=/core/management"
        assert ask(entry, "GET", f"{FORWARDING}?{query}")["id"] != dead.name


def test_without_a_majority_factories_are_unavailable_with_the_reason(
    cluster: LocalCluster,
) -> None:
    entry, *others = cluster.nodes
    for node in others:
        cluster.kill(node)
    until(lambda: ask(entry, "GET", "/films/available")["status"] == 503)
    assert "majority" in ask(entry, "GET", "/films/available")["detail"]
    assert page_of(f"{entry.url}/films/stats")["entries"]["isAvailable"]["latestValue"] == 0
    assert page_of(f"{entry.url}/films/synchronization")["status"] == "UNAVAILABLE"
    # A resynchronisation waits for owners, and says so.
    until(lambda: page_of(f"{entry.url}/core/management")["slots"]["owned"] == 0)
    ended = CliRunner().invoke(app, ["resync", "/films", "--timeout", "0.3", "--url", entry.url])
    assert ended.exit_code == 1
    [line] = ended.stderr.splitlines()
    assert "the resync continues on the nodes after 0.3 s: RUNNING: 0 of 64 slots" in line
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=200)

    async def followed() -> None:
        async with Client([entry.url]) as client:
            await follow(client, {}, 0.5, terminal)

    with pytest.raises(CommandFailed, match="64 slots have no owner now"):
        asyncio.run(followed())
    assert "waiting: 64 slots have no owner now" in screen.getvalue()
