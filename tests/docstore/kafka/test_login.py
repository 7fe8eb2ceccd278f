"""A node with an access file: SASL/PLAIN comes first, and each request needs its grant."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest
from kio.schema.errors import ErrorCode

from docstore.client.local import LocalCluster
from tests.docstore.access.tokens import digest
from tests.docstore.kafka.test_group_requests import DELETE, DESCRIBE, LIST, Member, commit
from tests.docstore.kafka.test_group_requests import FETCH as OFFSET_FETCH
from tests.docstore.kafka.test_records import (
    EARLIEST,
    FETCH,
    PRODUCE,
    batch,
    offsets,
    outcomes,
    partitions,
    sent,
    wanted,
)
from tests.docstore.kafka.test_topics import DELETE_TOPICS, PATIENCE, create
from tests.docstore.kafka.test_topics import wanted as topic_wanted
from tests.docstore.kafka.wire import API_VERSIONS, NOW_S, Fields, Wire, connected, topics

METADATA, HANDSHAKE, AUTHENTICATE = 3, 17, 36
AUTO = {"allow_auto_topic_creation": False}
GRANTS: dict[str, dict[str, str]] = {
    "admin": {"/": "admin"},
    "writer": {"/core/streams/clicks": "write"},
    "reader": {"/core/streams/clicks": "read"},
    "grouper": {"/core/groups/etl": "write", "/core/streams/clicks": "read"},
    "watcher": {"/core/groups/etl": "read", "/core/streams/clicks": "read"},
    "blind": {"/core/groups/etl": "write"},
    "nobody": {},
}


@pytest.fixture(scope="module")
def group(port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    lines = []
    for name, grants in GRANTS.items():
        lines += [f"[roles.{name}]", *(f'"{path}" = "{level}"' for path, level in grants.items())]
        lines += [f"[users.{name}]", f'tokens = ["{digest(name)}"]', f'roles = ["{name}"]']
    folder = tmp_path_factory.mktemp("access")
    file, token = folder / "access.toml", folder / "token"
    file.write_text("\n".join(lines))
    token.write_text("admin")
    token.chmod(0o600)
    settings = (
        "--kafka-listen", f"127.0.0.1:{port}", "--access-file", str(file),
        "--token-file", str(token), "--audit-file", str(folder / "audit.log"),
    )  # fmt: skip
    with LocalCluster(1, directory=folder / "nodes", settings=settings, token="admin") as nodes:
        yield nodes


@pytest.fixture
async def clicks(group: LocalCluster) -> str:
    """Create a topic for which users have grants; return its name."""
    headers = {"Authorization": "Bearer admin"}
    async with (
        aiohttp.ClientSession(group.urls[0], headers=headers) as http,
        http.post("/core/streams", json={"name": "clicks"}) as answer,
    ):
        assert answer.status in (201, 409)
    return "clicks"


async def login(wire: Wire, user: str, token: str) -> ErrorCode:
    chosen = await wire.ask(HANDSHAKE, 1, mechanism="PLAIN")
    assert (chosen.error_code, tuple(chosen.mechanisms)) == (ErrorCode.none, ("PLAIN",))
    said = b"\0".join((b"", user.encode(), token.encode()))
    found = await wire.ask(AUTHENTICATE, 2, auth_bytes=said)
    return ErrorCode(found.error_code)


@pytest.fixture
async def admin(clicks: str, port: int) -> AsyncIterator[Wire]:
    async with connected(port) as wire:
        assert await login(wire, "admin", "admin") == ErrorCode.none
        async with asyncio.timeout(NOW_S):
            while True:
                found = await wire.ask(METADATA, 1, topics=topics(clicks))
                if found.topics[0].partitions[0].error_code == ErrorCode.none:
                    break
        yield wire


@pytest.mark.parametrize(
    ("user", "token"),
    [("admin", "writer"), ("nobody-known", "admin"), ("admin", ""), ("", "admin"), ("a\0b", "c")],
)
async def test_a_user_with_another_token_is_refused(wire: Wire, user: str, token: str) -> None:
    assert await login(wire, user, token) == ErrorCode.sasl_authentication_failed
    assert await wire.is_closed()


async def test_requests_before_the_login_close_the_connection(wire: Wire, port: int) -> None:
    fields = {"client_software_name": "wire", "client_software_version": "1"}
    assert (await wire.ask(API_VERSIONS, 3, **fields)).error_code == ErrorCode.none
    wire.send(METADATA, 1, topics=None)
    assert await wire.is_closed()
    async with connected(port) as other:
        found = await other.ask(HANDSHAKE, 1, mechanism="GSSAPI")
        assert found.error_code == ErrorCode.unsupported_sasl_mechanism
        found = await other.ask(AUTHENTICATE, 1, auth_bytes=b"\0admin\0admin")
        assert found.error_code == ErrorCode.illegal_sasl_state
        assert await other.is_closed()
    async with connected(port) as third:
        third.writer.write((1 << 17).to_bytes(4, "big"))
        assert await third.is_closed()


async def test_a_user_reads_and_writes_what_its_grants_allow(
    admin: Wire, clicks: str, port: int
) -> None:
    may: dict[str, Any] = {}
    for user in GRANTS:
        async with connected(port) as wire:
            assert await login(wire, user, user) == ErrorCode.none
            [(wrote, _)] = outcomes(await wire.ask(PRODUCE, 7, **sent(clicks, batch(b"a"))))
            [read] = partitions(await wire.ask(FETCH, 11, **wanted(clicks, 0)))
            [(found, _, _)] = await offsets(wire, 4, clicks, EARLIEST)
            [one] = (await wire.ask(METADATA, 4, topics=topics(clicks), **AUTO)).topics
            every = (await wire.ask(METADATA, 4, topics=None, **AUTO)).topics
            made = await create(wire, 4, topic_wanted(f"of-{user}"))
            gone = await wire.ask(DELETE_TOPICS, 3, topic_names=["of-admin"], **PATIENCE)
            may[user] = (
                wrote, read.error_code, bool(read.records), found, one.error_code, len(every) > 0,
                made.topics[0].error_code, gone.responses[0].error_code,
            )  # fmt: skip
    none, no = ErrorCode.none, ErrorCode.topic_authorization_failed
    assert may == {
        "admin": (none, none, True, none, none, True, none, none),
        "writer": (none, none, True, none, none, True, no, no),
        "reader": (no, none, True, none, none, True, no, no),
        "grouper": (no, none, True, none, none, True, no, no),
        "watcher": (no, none, True, none, none, True, no, no),
        "blind": (no, no, False, no, no, False, no, no),
        "nobody": (no, no, False, no, no, False, no, no),
    }


async def test_a_user_joins_commits_and_sees_what_its_grants_allow(
    admin: Wire, clicks: str, port: int
) -> None:
    may: dict[str, Any] = {}
    place = f"{clicks}/0"
    assert await commit(admin, "etl", place, 1) == ErrorCode.none
    for user in GRANTS:
        async with connected(port) as wire:
            assert await login(wire, user, user) == ErrorCode.none
            member = Member(wire, "etl")
            joined = await member.join()
            if joined == ErrorCode.none:
                await member.sync(place)
                await member.leave()
            committed = await commit(wire, "etl", place, 2)
            asked = [Fields(name=clicks, partition_indexes=[0])]
            [read] = (await wire.ask(OFFSET_FETCH, 1, group_id="etl", topics=asked)).topics
            [shown] = (
                await wire.ask(DESCRIBE, 3, groups=["etl"], include_authorized_operations=False)
            ).groups
            listed = (await wire.ask(LIST, 0)).groups
            [deleted] = (await wire.ask(DELETE, 1, groups_names=["of-others"])).results
            may[user] = (
                joined, committed, read.partitions[0].error_code, shown.error_code, len(listed) > 0,
                deleted.error_code,
            )  # fmt: skip
    none, absent = ErrorCode.none, ErrorCode.group_id_not_found
    group, topic = ErrorCode.group_authorization_failed, ErrorCode.topic_authorization_failed
    assert may == {
        "admin": (none, none, none, none, True, absent),
        "writer": (group, group, group, group, False, group),
        "reader": (group, group, group, group, False, group),
        "grouper": (none, none, none, none, True, group),
        "watcher": (group, group, none, none, True, group),
        "blind": (none, topic, topic, group, False, group),
        "nobody": (group, group, topic, group, False, group),
    }


async def test_changes_and_refusals_are_in_the_audit_log(
    admin: Wire, group: LocalCluster, port: int
) -> None:
    await create(admin, 4, topic_wanted("audited"))
    member, file = Member(admin, "noted"), group.directory.parent / "audit.log"
    for _ in range(2):  # The second time only starts another generation.
        await member.reads("clicks/0")
    await member.leave()
    async with connected(port) as wire:
        await login(wire, "nobody", "nobody")
        await Member(wire, "noted").join()
    async with connected(port) as wire:
        await login(wire, "admin", "wrong")
    found = [
        (each["event"], each["user"], each.get("method"), each.get("path"), each.get("status"))
        for each in map(json.loads, file.read_text().splitlines())
        if each.get("path", "").endswith("audited") or "noted" in each.get("path", "")
    ]
    assert found == [
        ("change", "admin", "POST", "/core/streams/audited", 201),
        ("change", "admin", "POST", "/core/groups/noted", 201),
        ("change", "admin", "POST", "/core/groups/noted/members", 201),
        ("change", "admin", "DELETE", f"/core/groups/noted/members/{member.id}", 200),
        ("request refused", "nobody", "PUT", "/core/groups/noted", 403),
    ]
    assert '"event": "login refused"' in file.read_text()
    assert "wrong" not in file.read_text()
