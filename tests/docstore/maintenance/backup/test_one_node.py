"""Backup and restore of a group of one, from end to end, on real nodes."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import test_utils, web
from typer.testing import CliRunner

from docstore.cli.app import app
from docstore.client import Client, RequestFailed
from docstore.client.local import LocalCluster
from docstore.maintenance.backup.directory import manifest_in, manifests_in, place_of, unfinished
from docstore.maintenance.backup.manifest import Manifest
from docstore.maintenance.backup.taking import BackupRequest, _let_go, take
from docstore.model.document import Row
from tests.docstore.maintenance.backup.groups import restored_group, rows_of
from tests.docstore.watching import until

SLOTS = 16
WEAK = ["PERSISTENCE", "REPLICATION"]


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(1, tmp_path_factory.mktemp("group"), ["--slots", str(SLOTS)]) as group:
        yield group


def run(*arguments: str) -> tuple[int, Any, str]:
    """Return the exit code of a command, its output, parsed if it is JSON, and its errors."""
    done = CliRunner().invoke(app, [*arguments])
    is_page = "--json" in arguments and done.exit_code == 0
    return done.exit_code, orjson.loads(done.stdout) if is_page else done.stdout, done.stderr


async def fill(urls: list[str], text: str) -> None:
    """Change documents of all levels, delete and recreate one, and produce a record."""
    async with Client(urls) as store:
        await store.declare("/a")
        await store.declare("/weak", options=WEAK)
        with contextlib.suppress(RequestFailed):
            await store.json("POST", "/core/streams", {"name": "orders"})
        await store.json("POST", "/core/streams/orders/records", {"key": "k", "value": text})
        for n in range(30):
            await store.put(f"/a/{n}", {"text": text, "n": n})
        await store.delete("/a/3")
        await store.put("/a/4", {"fenced": text}, fence="locks/x:7")
        await store.put("/weak/w", {"text": text})


def test_a_restored_group_has_the_same_documents(group: LocalCluster, tmp_path: Path) -> None:
    backups, url = tmp_path / "backups", group.urls[0]

    asyncio.run(fill(group.urls, "first"))
    assert "backup 1: full, as of barrier" in run("backup", "create", str(backups), "--url", url)[1]
    asyncio.run(fill(group.urls, "second"))
    latest = ("--as-of", "latest", "--json")
    code, page, _ = run("backup", "create", str(backups), "--url", url, *latest)
    assert (code, page["number"], page["slots"]) == (0, 2, SLOTS)
    asyncio.run(fill(group.urls, "third"))
    ends = manifests_in(backups)[1].ends

    async def rows() -> dict[tuple[int, int], Row]:
        async with Client(group.urls) as store:
            return await rows_of(store, ends)

    there = asyncio.run(rows())
    code, found, errors = run("backup", "verify", str(backups), "--json")
    assert (code, errors) == (0, "")
    assert [each["number"] for each in found] == [1, 2]
    assert found[1]["previous"] == found[0]["id"]
    assert found[0]["rows"] > found[1]["rows"] > 30

    async def look(urls: list[str]) -> None:
        async with Client(urls) as store:
            now = await rows_of(store, ends)
            assert now == there
            history = await store.history("/a/3")
            assert [each["documentVersion"] for each in history] == [3, 2, 1, 0]
            assert (await store.get("/a/5", version=1)).value["text"] == "second"
            assert (await store.get("/weak/w")).value["text"] == "second"
            after = (await store.put("/a/3", {"text": "new"})).value
            assert after["documentVersion"] == 4
            assert after["documentEpoch"] > max(row.epoch for row in there.values()) + 1_000_000
            with pytest.raises(RequestFailed, match="token 7 has been seen"):
                await store.put("/a/4", {"fenced": "late"}, fence="locks/x:6")
            with pytest.raises(RequestFailed, match="this cut is of another group"):
                await store.json("GET", f"/core/spark/plan?asOf={manifests_in(backups)[0].cut}")

    with restored_group(backups, tmp_path / "anew", 1, SLOTS) as anew:
        asyncio.run(look(anew.urls))
        until(lambda: asyncio.run(produced(anew.urls)))
        assert "lost" not in anew.nodes[0].last_words()


async def produced(urls: list[str]) -> bool:
    """Say whether a topic accepts records and has no old ones."""
    async with Client(urls) as store:
        record = {"key": "k", "value": 1}
        try:
            answer = await store.json("POST", "/core/streams/orders/records", record)
        except RequestFailed:
            return False
        return bool(answer["base"] == 0)


def test_failing_commands_print_a_one_line_error(group: LocalCluster, tmp_path: Path) -> None:
    backups, url = tmp_path / "backups", group.urls[0]
    assert run("backup", "create", str(backups), "--url", url)[0] == 0

    def error_of(*arguments: str) -> str:
        code, _, errors = run(*arguments)
        assert code == 1
        assert errors.count("\n") == 1
        return errors

    early = ("backup", "create", str(backups), "--url", url, "--as-of", "2020-01-01T00:00:00Z")
    assert "take one as of a later time" in error_of(*early)
    assert "no finished backup" in error_of("backup", "verify", str(tmp_path / "nowhere"))
    assert "no finished backup" in error_of("restore", str(tmp_path), "--data", str(tmp_path / "d"))
    with LocalCluster(1, tmp_path / "other", ["--slots", str(SLOTS)]) as other:
        assert "nodes are of group" in error_of(
            "backup", "create", str(backups), "--url", other.urls[0]
        )
    assert "is not empty" in error_of("restore", str(backups), "--data", str(group.nodes[0].data))
    part = next(place_of(backups, 1).glob("slots-*"))
    part.write_bytes(part.read_bytes()[:-2])
    assert f"{part} is truncated" in error_of("backup", "verify", str(backups))


def test_the_groups_history_is_held_for_the_next_backup_only(
    group: LocalCluster, tmp_path: Path
) -> None:
    async def held() -> set[str]:
        async with Client(group.urls) as store:
            return {link async for link in store.links("/core/snapshots")}

    async def work() -> None:
        before = await held()
        async with Client(group.urls) as store:
            taken = []
            for hold_s, holds in ((3600.0, 1), (3600.0, 1), (0.0, 0)):
                wanted = BackupRequest(hold_s=hold_s)
                taken.append(await take(store, tmp_path / "b", wanted, lambda part: None))
                new = await held() - before
                assert new == {f"/core/snapshots/backup-{taken[-1].id}"} if holds else not new

    asyncio.run(work())


async def test_a_hold_is_kept_if_the_next_one_cannot_be_made() -> None:
    """Once, the hold was released all the same, and the next backup found no history."""
    asked: list[tuple[str, str]] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        if request.method != "GET":
            asked.append((request.method, request.path.rpartition("-")[2]))
        return web.json_response({"errorCode": "forbidden"}, status=403)

    node = test_utils.RawTestServer(answer)
    first = Manifest(
        id="1", number=1, group="g", slots=1, cut="~A", ends=(0,), epoch=1, as_of="latest",
        began_us=0, stored_protocol=1, docstore="0.1.0",
    )  # fmt: skip
    async with node, Client([str(node.make_url("/"))]) as store:
        await _let_go(store, replace(first, id="2"), first, hold_s=3600.0)
    assert asked == [("PUT", "2")]


def test_a_backup_ended_by_a_full_disk_continues_later(
    group: LocalCluster, small_disk: Path, tmp_path: Path
) -> None:
    backups, url = small_disk / "backups", group.urls[0]

    async def load() -> None:
        async with Client(group.urls) as store:
            await store.declare("/big")
            for n in range(100):
                await store.put(f"/big/{n}", {"noise": os.urandom(60_000).hex()})

    asyncio.run(load())
    code, _, errors = run("backup", "create", str(backups), "--url", url)
    assert code == 1
    assert "No space left" in errors
    assert [each.name for each in backups.iterdir() if each.is_dir()] == ["000001.unfinished"]
    assert not list(backups.glob("*/*.new"))
    assert "no finished backup" in run("backup", "verify", str(backups))[2]
    shutil.copytree(backups, tmp_path / "wider")
    begun = manifest_in(unfinished(tmp_path / "wider", 1) / "plan.json")
    some = next(unfinished(tmp_path / "wider", 1).glob("slots-*"))
    some.write_bytes(some.read_bytes()[:-1])  # A part that was damaged meanwhile is read again.
    code, page, _ = run("backup", "create", str(tmp_path / "wider"), "--url", url, "--json")
    assert (code, page["id"], page["cut"]) == (0, begun.id, begun.cut)
    assert run("backup", "verify", str(tmp_path / "wider"), "--json")[0] == 0
