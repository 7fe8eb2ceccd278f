"""The way back: addresses on disk, torn lines, a full disk, a rewrite, and a real restart."""

import json
from pathlib import Path

import pytest

from gossip import Snapshot, State
from tests.gossip.live import Launch, sees, until
from tests.gossip.rig import address_of, peer


async def written(path: Path, *names: str) -> None:
    snapshot = Snapshot(path)
    snapshot.load()
    for name in names:
        snapshot.note(peer(name))
    await snapshot.close(has_left=False)


async def test_a_snapshot_is_read_latest_first(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    await written(path, "a", "b")
    assert Snapshot(path).load() == [address_of("b"), address_of("a")]


async def test_a_snapshot_keeps_dead_members_but_not_those_that_left(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    await written(path, "a", "b")
    snapshot = Snapshot(path)
    snapshot.load()
    snapshot.note(peer("a", state=State.DEAD))
    snapshot.note(peer("b", state=State.LEFT))
    await snapshot.close(has_left=False)
    assert Snapshot(path).load() == [address_of("a")]


@pytest.mark.parametrize("junk", ["{", "[1]", '["b", "nowhere", 7]', '["\\u0000", "::1", 7]', "7"])
async def test_a_strange_line_is_skipped(tmp_path: Path, junk: str) -> None:
    path = tmp_path / "snapshot"
    path.write_text(json.dumps(["a", *address_of("a")]) + "\n" + junk)
    assert Snapshot(path).load() == [address_of("a")]


async def test_the_file_does_not_grow_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    for _ in range(30):
        await written(path, "a", "b")
        snapshot = Snapshot(path)
        snapshot.load()
        snapshot.note(peer("a", state=State.LEFT))
        await snapshot.close(has_left=False)
    assert len(path.read_text().splitlines()) <= 33


async def test_leaving_deletes_the_snapshot_unless_it_is_to_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    await written(path, "a")
    await Snapshot(path, keep_after_leave=True).close(has_left=True)
    assert path.exists()
    await Snapshot(path).close(has_left=True)
    assert not path.exists()


async def test_a_disk_that_cannot_be_written_is_no_reason_to_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await written(tmp_path / "missing" / "snapshot", "a")
    assert "is not up to date" in caplog.text


async def test_a_restart_finds_the_others_without_a_seed(launch: Launch, tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    first = await launch("a")
    second = await launch("b", first, snapshot=Snapshot(path))
    await until(lambda: sees(second, "a") is State.ALIVE)
    await second.stop()
    again = await launch("b", snapshot=Snapshot(path))
    await until(lambda: sees(again, "a") is State.ALIVE)
