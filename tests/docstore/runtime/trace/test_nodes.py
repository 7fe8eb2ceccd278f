"""Real nodes show their steps: over HTTP, in the command line, and in the log."""

import asyncio
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from docstore.cli.app import app
from docstore.client import Client, LocalCluster
from docstore.client.local import LocalNode
from tests.docstore.watching import page_of, until

PATH = "/core/management/trace"
TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACE = {"traceparent": f"00-{TRACE_ID}-00f067aa0ba902b7-01"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Yield three nodes with a factory, a document, a topic and a lease."""
    with LocalCluster(3) as group:
        ask(group.nodes[0], "POST", "/core/factories", {"path": "/notes"})
        ask(group.nodes[0], "PUT", "/notes/a", {"text": "top secret"})
        topic = {"name": "orders", "partitions": 1}
        ask(group.nodes[0], "POST", "/core/streams", topic, {"Prefer": "wait=20"})
        ask(group.nodes[0], "POST", "/core/leases", {"documentSelfLink": "one"})
        yield group


def ask(
    node: LocalNode, method: str, path: str, body: Any = None, headers: Any = None
) -> dict[str, Any]:
    raw = None if body is None else json.dumps(body).encode()
    heads = {"Content-Type": "application/json", **(headers or {})}
    request = urllib.request.Request(node.url + path, raw, heads, method=method)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return dict(json.load(answer))


def steps(node: LocalNode, query: str = "limit=2000") -> list[dict[str, Any]]:
    return list(page_of(f"{node.url}{PATH}?{query}")["steps"])


def text(step: dict[str, Any]) -> str:
    return " ".join([step["event"], *step["effects"]])


def docstore(*arguments: str) -> tuple[int, str, str]:
    """Run a command in this process; return its exit code, its output and its errors."""
    ended = CliRunner().invoke(app, list(arguments))
    return ended.exit_code, ended.stdout, ended.stderr


def entry_and_owner(cluster: LocalCluster, link: str) -> tuple[LocalNode, LocalNode]:
    owner = cluster.owner_of(link)
    return next(node for node in cluster.nodes if node is not owner), owner


def test_a_request_is_traced_on_its_entry_node_and_its_owner(cluster: LocalCluster) -> None:
    entry, owner = entry_and_owner(cluster, "/notes/a")
    ask(entry, "PUT", "/notes/a", {"text": "top secret"}, TRACE)
    entered = [each for each in steps(entry) if TRACE_ID in each["traces"]]
    assert "Requested" in entered[0]["event"]
    assert any(f"to {owner.name} Forward" in each for step in entered for each in step["effects"])
    served = [each for each in steps(owner) if TRACE_ID in each["traces"]]
    assert served[0]["event"].startswith(f"from {entry.name} Forward [")
    assert f"verb=PUT link=/notes/a bytes=22 trace={TRACE_ID}" in served[0]["event"]
    # Another request is not in this trace.
    ask(entry, "PUT", "/notes/a", {"text": "top secret"})
    last = [each for each in steps(entry) if "Requested" in each["event"]][-1]
    assert last["traces"] == []
    for node in cluster.nodes:
        assert "top secret" not in json.dumps(steps(node))


def test_records_and_leases_carry_their_trace_to_the_serving_node(cluster: LocalCluster) -> None:
    partition = page_of(f"{cluster.urls[0]}/core/streams/orders/partitions/0")
    leader = next(node for node in cluster.nodes if node.name == partition["leader"])
    entry = next(node for node in cluster.nodes if node is not leader)
    body = {"records": [{"value": "top secret"}]}
    ask(entry, "POST", "/core/streams/orders/partitions/0/records", body, TRACE)
    [led] = [text(each) for each in steps(leader) if f"from {entry.name} Produce " in text(each)]
    assert f"partition=orders/0@{partition['incarnation']} acks=committed records=1" in led
    assert TRACE_ID in led
    entry, owner = entry_and_owner(cluster, "/core/leases/one")
    ask(entry, "POST", "/core/leases/keep-alive", {"leases": ["one"]}, TRACE)
    served = [each["event"] for each in steps(owner) if TRACE_ID in each["traces"]]
    called = f"link=/core/leases/one kind=keep-alive trace={TRACE_ID}"
    assert any(f"from {entry.name} Call " in each and called in each for each in served)


def test_steps_are_in_order_with_both_clocks(cluster: LocalCluster) -> None:
    page = page_of(f"{cluster.urls[0]}{PATH}?limit=2000")
    found = page["steps"]
    numbers = [each["number"] for each in found]
    assert numbers == sorted(set(numbers))
    assert {each["machine"] for each in found} >= {"documents", "streams"}
    assert found[-1]["atSeconds"] <= page["atSeconds"]
    [one] = steps(cluster.nodes[0], "limit=1")
    assert one["number"] >= numbers[-1]
    later = steps(cluster.nodes[0], f"after={numbers[len(numbers) // 2]}&limit=2000")
    assert later[0]["number"] > numbers[len(numbers) // 2]


def test_steps_of_a_slot_a_document_and_a_partition_are_found(cluster: LocalCluster) -> None:
    entry, owner = entry_and_owner(cluster, "/notes/a")
    slot = page_of(f"{entry.url}/notes/a/explain")["slot"]
    ask(entry, "PUT", "/notes/a", {"text": "again"})
    for node in cluster.nodes:
        found = [text(each) for each in steps(node, f"slot={slot}&limit=2000")]
        assert any(f"slot={slot} " in each for each in found)
    found = [text(each) for each in steps(owner, "link=/notes/a&limit=2000")]
    assert any("Persist" in each and "link=/notes/a" in each for each in found)
    led = [steps(node, "partition=orders/0&limit=2000") for node in cluster.nodes]
    assert any("Promoted [partition=orders/0@" in text(each) for found in led for each in found)


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("slot=1024", "slot must be a whole number from 0 to 1023"),
        ("slot=x", "slot must be a whole number"),
        ("limit=0", "limit must be a whole number from 1"),
        ("after=-1", "after must be a whole number"),
        ("link=notes", "a path must begin with /"),
        ("partition=orders", "<topic>/<number>"),
        ("partition=orders/x", "partition must be a whole number"),
        ("slot=1&link=/notes/a", "exclude each other"),
        ("slots=1", "there is no parameter 'slots' here, but"),
    ],
)
def test_invalid_queries_of_a_trace_are_refused(
    cluster: LocalCluster, query: str, detail: str
) -> None:
    refused = page_of(f"{cluster.urls[0]}{PATH}?{query}")
    assert refused["status"] == 400
    assert detail in refused["detail"]


def test_a_trace_is_only_read(cluster: LocalCluster) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(cluster.nodes[0], "DELETE", PATH)
    refused.value.close()
    assert (refused.value.code, refused.value.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")


def test_the_command_line_shows_a_node_s_trace(cluster: LocalCluster) -> None:
    entry, owner = entry_and_owner(cluster, "/notes/a")
    ask(entry, "PUT", "/notes/a", {"text": "for the command"})
    code, out, _ = docstore("trace", owner.name, "--link", "/notes/a", "--url", entry.url)
    assert code == 0
    assert f"documents from {entry.name} Forward" in out
    code, out, _ = docstore("trace", owner.url, "--limit", "3", "--json")
    page = json.loads(out)
    assert (code, page["id"], len(page["steps"])) == (0, owner.name, 3)
    code, _, err = docstore("trace", "n9", "--url", entry.url)
    assert (code, err) == (
        1,
        "docstore: n9 is no member with a known address; give the node's URL\n",
    )
    assert docstore("trace", "--slot", "70000", "--url", entry.url)[0] == 1


async def test_a_trace_is_followed_until_the_command_is_stopped(cluster: LocalCluster) -> None:
    entry, owner = entry_and_owner(cluster, "/notes/a")
    following = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "docstore", "trace", owner.name, "--follow", "--json",
        "--link", "/notes/a", "--url", entry.url, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert following.stdout is not None
    try:
        async with asyncio.timeout(20), Client([entry.url]) as store:
            last = json.loads(await following.stdout.readline())["number"]
            version = (await store.put("/notes/a", {"text": "while it looks"})).version
            while f"version={version}]" not in (line := await following.stdout.readline()).decode():
                assert json.loads(line)["number"] > last
                last = json.loads(line)["number"]
    finally:
        following.terminate()
        await following.wait()


def test_the_log_level_is_changed_while_a_node_runs(cluster: LocalCluster) -> None:
    node = cluster.nodes[0]
    log = node.data / "log.txt"
    assert page_of(f"{node.url}/core/management")["logLevel"] == "info"
    ask(node, "GET", "/notes/a?documentVersion=0", headers=TRACE)
    assert '"event": "request"' not in log.read_text()
    code, out, _ = docstore("log-level", "debug", node.name, "--url", node.url)
    assert (code, out) == (0, "n1 logs debug and above\n")
    ask(node, "GET", "/notes/a?documentVersion=0", headers=TRACE)
    until(lambda: TRACE_ID in log.read_text())
    [line] = [json.loads(each) for each in log.read_text().splitlines() if TRACE_ID in each]
    said = (line["event"], line["method"], line["path"], line["status"], line["traceparent"])
    assert said == ("request", "GET", "/notes/a", 200, TRACE["traceparent"])
    answer = ask(node, "PATCH", "/core/management", {"kind": "LogLevelRequest", "level": "error"})
    assert answer == {"kind": "LogLevel", "id": "n1", "level": "error"}
    assert page_of(f"{node.url}/core/management")["logLevel"] == "error"
    code, _, err = docstore("log-level", "loud", "--url", node.url)
    assert code == 1
    assert "level must be one of debug, info, warning, error" in err
