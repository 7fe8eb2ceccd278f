"""Real nodes that require tokens: of clients, feeds, streams, leases, each other."""

import asyncio
import contextlib
import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import aclosing
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from docstore.client import Client, Differs, LocalCluster, RequestFailed
from tests.docstore.access.tokens import digest
from tests.fork_server import SERVER

GROUP = "/core/node-groups/default"
SOON_S = 5.0
"""By then a token that has been taken out of the file is refused."""
ROLES = """
[roles.operator]
"/" = "admin"

[roles.node]
"/core/management" = "read"
"/core/node-groups" = "admin"

[roles.sessions]
"/core/leases" = "write"
"/core/locks" = "write"
"/core/groups" = "write"

[roles.locks]
"/core/locks" = "write"

[roles.notes]
"/notes" = "write"
"/core/leases" = "write"
"/core/streams/clicks" = "write"
"""
USERS = {
    "operator": "operator",
    "node": "node",
    "ann": "notes",
    "eve": "notes",
    "bob": "sessions",
    "lou": "locks",
}


def _access_file(directory: Path, *gone: str) -> Path:
    """Write the access file, without some users."""
    said = [ROLES]
    for name, role in USERS.items():
        if name not in gone:
            said.append(f'[users.{name}]\ntokens = ["{digest(name)}"]\nroles = ["{role}"]\n')
    new, path = directory / "access.new", directory / "access.toml"
    new.write_text("".join(said))
    new.replace(path)
    return path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("guarded")
    token = directory / "node.token"
    token.write_text("node\n")
    settings = (
        "--access-file", str(_access_file(directory)), "--token-file", str(token),
        "--log-level", "debug",
    )  # fmt: skip
    with LocalCluster(3, directory, settings, token="operator") as cluster:
        yield cluster


@pytest.fixture
async def notes(cluster: LocalCluster) -> str:
    _access_file(cluster.directory)
    async with Client(cluster.urls, token="eve") as eve, asyncio.timeout(SOON_S):
        for url in cluster.urls:  # Which a test before may have shut out.
            while await _status(eve, url, "/") != 200:
                await asyncio.sleep(0.05)
    async with Client(cluster.urls, token="operator") as operator:
        for path in ("/notes", "/secret"):
            with contextlib.suppress(RequestFailed):  # It is there from the test before.
                await operator.json("POST", "/core/factories", {"path": path})
            await operator.put(f"{path}/a", {"n": 1})
    return "/notes"


async def test_a_client_shows_its_token_to_every_node(cluster: LocalCluster, notes: str) -> None:
    async with Client(cluster.urls, token="ann") as ann:
        assert (await ann.put(f"{notes}/b", {"n": 2})).value["n"] == 2
        for url in cluster.urls:
            status, _, _ = await ann.once(url, "GET", f"{notes}/b", timeout_s=5)
            assert status == 200
            for link, status in (("/secret/a", 404), ("/core/management", 404)):
                with pytest.raises(RequestFailed) as refused:
                    await ann.once(url, "GET", link, timeout_s=5)
                assert refused.value.status == status
    async with Client(cluster.urls) as anonymous:
        with pytest.raises(RequestFailed, match="401"):
            await anonymous.get(f"{notes}/b")


async def test_each_version_names_its_principal_through_any_node(
    cluster: LocalCluster, notes: str
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        ann, eve, operator = [
            await stack.enter_async_context(Client(cluster.urls, token=name))
            for name in ("ann", "eve", "operator")
        ]
        link, kind = f"{notes}/whose", {"Content-Type": "application/json"}
        for number, (client, url) in enumerate(itertools.product((ann, eve), cluster.urls)):
            body = json.dumps({"n": number}).encode()
            await client.once(url, "PUT", link, body, kind, timeout_s=5)
        await ann.patch(link, {"m": 1})
        await eve.bulk([{"link": link, "body": {"bulk": True}}])
        await ann.delete(link)
        makers = [each["documentAuthPrincipalLink"] for each in await operator.history(link)]
        made_by = ["ann", "eve", "ann", *["eve"] * 3, *["ann"] * 3]
        assert makers == [f"/core/access/users/{name}" for name in made_by]
        table = await asyncio.to_thread(
            _command, cluster, "history", link, DOCSTORE_TOKEN="operator"
        )
        assert [line.count("ann") for line in table.stdout.splitlines()].count(1) == 5
        assert "made by" in table.stdout
        maker = await ann.json("GET", makers[0])
        assert (maker["name"], maker["grants"][notes]) == ("ann", "write")
        await operator.declare("/orders:")
        batch = [{"link": f"/orders:/7~{part}", "body": {"part": part}} for part in range(3)]
        await operator.atomic(batch)
        for part in range(3):
            order = await operator.get(f"/orders:/7~{part}")
            assert order.value["documentAuthPrincipalLink"] == "/core/access/users/operator"


def _command(
    cluster: LocalCluster, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command as in a terminal."""
    kept = {name: value for name, value in os.environ.items() if "DOCSTORE" not in name}
    return SERVER.run(*arguments, "--url", cluster.urls[0], environment=kept | environment)


async def test_a_user_with_a_write_grant_may_declare_an_existing_factory(
    cluster: LocalCluster, notes: str
) -> None:
    async with Client(cluster.urls, token="ann") as ann:
        await ann.declare(notes)
        with pytest.raises(Differs, match="putCreates is True, asked for was False"):
            await ann.declare(notes, put_creates=False)
        for path in ("/secret", f"{notes}/none"):
            with pytest.raises(RequestFailed) as refused:
                await ann.declare(path)
            assert refused.value.status == 403


async def test_a_token_is_shown_without_the_end_of_its_line(
    cluster: LocalCluster, notes: str
) -> None:
    async with Client(cluster.urls, token="ann\n") as ann:
        assert (await ann.get(f"{notes}/a")).value["n"] == 1


async def test_a_feed_and_a_scan_show_only_granted_documents(
    cluster: LocalCluster, notes: str
) -> None:
    async with Client(cluster.urls, token="ann") as ann:
        async with aclosing(ann.changes(notes, since="earliest")) as changes:
            seen: set[str] = set()
            async with asyncio.timeout(10):
                async for found in changes:
                    seen |= {each["documentSelfLink"] for each in found.changes}
                    if f"{notes}/a" in seen:
                        break
        assert all(link.startswith(f"{notes}/") for link in seen)
        plan = await ann.json("GET", f"/core/spark/plan?path={notes}")
        cut = [[slot, end] for slot, end in enumerate(plan["ends"])]
        scan = json.dumps(
            {"prefix": f"{notes}/", "cut": cut, "columns": ["documentSelfLink"]}
        ).encode()
        _, _, content = await ann.once(
            cluster.urls[0], "POST", "/core/spark/scan", scan,
            {"Content-Type": "application/json"}, timeout_s=10,
        )  # fmt: skip
        assert b'"complete":true' in content
        for prefix in ("/secret", "", "/"):
            with pytest.raises(RequestFailed) as refused:
                await ann.json("GET", f"/core/changes?prefix={prefix}&since=earliest")
            assert refused.value.status == 404


async def test_records_and_leases_need_grants_too(cluster: LocalCluster, notes: str) -> None:
    async with Client(cluster.urls, token="operator") as operator:
        for name in ("clicks", "others"):
            await operator.json("POST", "/core/streams", {"name": name, "partitions": 1})
    async with Client(cluster.urls, token="ann") as ann:
        async with ann.producer("clicks") as producer:
            await producer.send("k", {"n": 1})
        with pytest.raises(RequestFailed) as refused:
            await ann.json("POST", "/core/streams/others/records", {"records": [{"value": 1}]})
        assert refused.value.status == 403
        for method in ("DELETE", "PATCH"):
            with pytest.raises(RequestFailed) as refused:
                await ann.json(method, "/core/streams/clicks", {})
            assert refused.value.status == 403
        async with ann.lease(ttl_s=2.0) as lease:
            assert lease.held()
            await ann.json("PUT", f"{notes}/leased", {"documentLeaseLink": lease.link})
        with pytest.raises(RequestFailed) as refused:
            await ann.json("PATCH", "/core/locks/x", {"kind": "AcquireRequest"})
        assert refused.value.status == 403


async def test_resources_named_in_a_body_need_grants(cluster: LocalCluster, notes: str) -> None:
    campaign = {
        "kind": "AcquireRequest", "candidate": "bob", "value": None,
    }  # fmt: skip
    async with Client(cluster.urls, token="operator") as operator:
        await operator.json("POST", "/core/streams", {"name": "theirs", "partitions": 1})
    async with Client(cluster.urls, token="bob") as bob:
        lease = await bob.json("POST", "/core/leases", {"ttlMs": 5000})
        asked = [
            ("POST", "/core/streams", {"name": "more", "partitions": 1}, 403),
            ("POST", "/core/groups", {"name": "g", "topics": ["theirs"]}, 404),
            ("PATCH", "/core/locks/x", campaign | {"lease": lease["documentSelfLink"]}, 200),
        ]
        for method, link, body, status in asked:
            assert await _asked(bob, method, link, body) == status
    async with Client(cluster.urls, token="lou") as lou:
        body = campaign | {"lease": lease["documentSelfLink"]}
        assert await _asked(lou, "PATCH", "/core/locks/y", body) == 403


async def _asked(client: Client, method: str, link: str, body: object) -> int:
    try:
        await client.json(method, link, body)
    except RequestFailed as error:
        return error.status
    return 200


async def test_a_token_that_is_taken_out_is_refused_and_its_feed_ends(
    cluster: LocalCluster, notes: str
) -> None:
    headers = {"Authorization": "Bearer eve", "Accept": "text/event-stream"}
    feed = f"{cluster.urls[0]}/core/changes?prefix={notes}"
    async with aiohttp.ClientSession() as session, session.get(feed, headers=headers) as events:
        assert events.status == 200
        assert (await events.content.readline()).startswith(b"retry")
        _access_file(cluster.directory, "eve")
        async with asyncio.timeout(SOON_S):
            await events.read()  # It ends by itself.
    async with Client(cluster.urls, token="eve") as eve:
        for url in cluster.urls:
            async with asyncio.timeout(SOON_S):
                while await _status(eve, url, f"{notes}/a") != 401:
                    await asyncio.sleep(0.05)


async def test_a_scan_ends_once_its_token_is_taken_out(cluster: LocalCluster, notes: str) -> None:
    async with Client(cluster.urls, token="operator") as operator:
        rows = [{"op": "PUT", "link": f"{notes}/{each}", "body": {}} for each in range(640)]
        lines = "\n".join(map(json.dumps, rows)).encode()
        ndjson = {"Content-Type": "application/x-ndjson"}
        await operator.request("POST", "/core/bulk", lines, ndjson)
        plan = await operator.json("GET", f"/core/spark/plan?path={notes}")
    cut = [[slot, end] for slot, end in enumerate(plan["ends"])]
    asked = {"prefix": f"{notes}/", "cut": cut, "rowsPerSecond": 64}  # Ten seconds' worth.
    url, headers = f"{cluster.urls[0]}/core/spark/scan", {"Authorization": "Bearer eve"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(url, json=asked) as answer,
    ):
        assert answer.status == 200
        await answer.content.readline()
        _access_file(cluster.directory, "eve")
        async with asyncio.timeout(SOON_S):
            lines = (await answer.content.read()).splitlines()
    ending = json.loads(lines[-1])
    assert (ending["complete"], ending["status"]) == (False, 401)


async def _status(client: Client, url: str, link: str) -> int:
    try:
        status, _, _ = await client.once(url, "GET", link, timeout_s=5)
    except RequestFailed as error:
        return error.status
    return status


async def test_a_file_that_is_wrong_changes_nothing(cluster: LocalCluster, notes: str) -> None:
    (cluster.directory / "access.toml").write_text("[users")
    async with Client(cluster.urls, token="ann") as ann:
        log = cluster.directory / "n1" / "log.txt"
        async with asyncio.timeout(SOON_S):
            while "the access file is unusable" not in log.read_text():
                await asyncio.sleep(0.05)
        assert (await ann.get(f"{notes}/a")).value["n"] == 1


async def test_a_newcomer_shows_a_token_to_be_taken_in(cluster: LocalCluster, notes: str) -> None:
    node = cluster.add("--observer")
    async with Client(cluster.urls[:1], token="operator") as operator, asyncio.timeout(30):
        while True:
            page = await operator.json("GET", "/core/node-groups/default")
            if node.name in {each["id"] for each in page["configuration"]["members"]}:
                break
            await asyncio.sleep(0.05)
    cluster.kill(node)
    cluster.nodes.remove(node)


def test_commands_show_the_token_of_the_environment(
    cluster: LocalCluster, notes: str, tmp_path: Path
) -> None:
    command = partial(_command, cluster)
    token = tmp_path / "token"
    token.write_text("ann\n")
    assert command("get", f"{notes}/a").returncode == 1
    assert command("get", f"{notes}/a", DOCSTORE_TOKEN="ann").returncode == 0
    assert command("get", f"{notes}/a", DOCSTORE_TOKEN_FILE=str(token)).returncode == 0
    given = command("--token-file", str(token), "get", f"{notes}/a", DOCSTORE_TOKEN="wrong")
    assert given.returncode == 0
    gone = command("--token-file", str(token) + "x", "get", f"{notes}/a")
    assert gone.returncode == 1
    assert "Traceback" not in gone.stderr
    refused = command("get", f"{notes}/a")
    assert refused.returncode == 1
    assert "give a token with --token-file or DOCSTORE_TOKEN" in refused.stderr


def test_status_shows_unknown_for_values_that_nodes_withhold(
    cluster: LocalCluster, notes: str
) -> None:
    for token, ready in (("operator", "yes"), ("ann", "?")):
        status = _command(cluster, "status", DOCSTORE_TOKEN=token)
        assert status.returncode == 0, status.stderr
        row = next(line for line in status.stdout.splitlines() if " n1 " in line)
        assert row.split("│")[4].strip() == ready


async def test_no_token_is_in_a_log_a_metric_or_a_trace(cluster: LocalCluster, notes: str) -> None:
    canary = "canary-5b17c2"
    async with Client(cluster.urls, token=canary) as unknown:
        for url in cluster.urls:
            for link in (f"{notes}/a", "/core/bulk", "/%zz", "/metrics"):
                with pytest.raises(RequestFailed) as refused:
                    await unknown.once(url, "GET", link, timeout_s=5)
                assert canary not in repr(vars(refused.value))
    async with Client(cluster.urls, token="operator") as operator:
        for url in cluster.urls:
            for link in ("/metrics", "/core/management/trace", "/core/management"):
                _, _, content = await operator.once(url, "GET", link, timeout_s=5)
                assert canary.encode() not in content
                assert b"Bearer" not in content
    for node in cluster.nodes:
        log = (node.data / "log.txt").read_text()
        assert '"event": "request"' in log or "request " in log
        assert canary not in log
        assert "Bearer" not in log
        assert "Authorization" not in log


def test_owners_are_found_with_a_token(cluster: LocalCluster, notes: str) -> None:
    assert cluster.owner_of(f"{notes}/a") in cluster.nodes


def test_a_secret_file_that_other_users_may_read_is_logged(tmp_path: Path) -> None:
    shown, kept = tmp_path / "shown", tmp_path / "kept"
    for each, mode in ((shown, 0o644), (kept, 0o600)):
        each.write_text("node\n")
        each.chmod(mode)
    for each in (shown, kept):
        with LocalCluster(1, tmp_path / each.name[0], ["--token-file", str(each)]) as alone:
            log = (alone.nodes[0].data / "log.txt").read_text()
        assert ("other users of this computer may read the secret" in log) is (each is shown)
