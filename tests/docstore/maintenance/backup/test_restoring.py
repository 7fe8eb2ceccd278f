"""A disk restored from a chain of backups: the same slots, with a new group and ballot."""

from pathlib import Path

import pytest

from docstore.cli.diagnosis.directory import examine
from docstore.cli.directory import look
from docstore.config import database_in
from docstore.errors import BadConfig, DiskFull
from docstore.maintenance.backup.directory import place_of
from docstore.maintenance.backup.restoring import JUMP, RESTORE, restore
from docstore.maintenance.restored import restored_in, unfinished_in
from docstore.model import json
from docstore.model.document import Row, chain_digest
from docstore.reads.blocks import BadBackup, Branch
from docstore.services.offsets import offset_link
from docstore.storage.replication_log import Arrivals, BranchStatus, Heads
from docstore.storage.store import History, Newest, Recovered, Rows, SlotRecord
from docstore.streams.topic import Provision, Topic, read_topic
from docstore.wire.link_messages import PROTOCOL
from tests.docstore.maintenance.backup.chains import GROUP, SLOTS, Chain
from tests.docstore.storage.logs import Author
from tests.docstore.storage.small import small

EVERYTHING = 1 << 40


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path / "backups")


async def started(data: Path) -> tuple[Recovered, dict[int, list[Row]]]:
    """Return the state that a node recovers at its first start, and all rows by slot."""
    store = small(database_in(data))
    recovered = await store.open()
    try:
        slots = range(SLOTS)
        found = await store.read([Rows(slot, 1, EVERYTHING, EVERYTHING) for slot in slots])
        rows = {slot: each for slot, each in zip(slots, found, strict=True) if each}
    finally:
        await store.close()
    assert all(isinstance(each, list) for each in rows.values())
    return recovered, rows  # type: ignore[return-value]


async def test_logs_are_restored_row_by_row(chain: Chain, tmp_path: Path) -> None:
    author = Author()
    first = [author.row(1, link, epoch=epoch) for epoch in (1, 3) for link in ("/a/b", "/a/c")]
    first += [author.row(6, "/a/d", epoch=2)]
    then = [
        author.row(1, "/a/b", epoch=3, deleted=True, state=b'{"last":1}'),
        author.row(1, "/a/e", epoch=4, owner="n2"),
    ]
    chain.add(first)
    chain.add(then)
    chain.add([])
    restored, count = restore(chain.directory, tmp_path / "data")
    recovered, rows = await started(tmp_path / "data")
    assert rows == {1: [*first[:4], *then], 6: [first[4]]}
    assert (count, restored.group, restored.slots) == (7, GROUP, SLOTS)
    assert (recovered.boot, recovered.configuration) == (1, None)
    ballot = (4 + JUMP, RESTORE)
    assert recovered.slots[1].record == SlotRecord(
        1, ballot, ballot,
        (((1, "n1"), 1), ((3, "n1"), 3), ((4, "n2"), 6), (ballot, 7)),
        decided=6,
    )  # fmt: skip
    assert recovered.slots[1].end == 6
    assert recovered.slots[0].record == SlotRecord(0, ballot, ballot, ((ballot, 1),))
    assert set(recovered.slots) == set(range(SLOTS))


async def test_compacted_history_stays_compacted(chain: Chain, tmp_path: Path) -> None:
    """The slot's floor is kept, so numbers of compacted rows are not reused."""
    author = Author(ends={1: 3})
    rows = [author.row(1, "/a/b"), author.row(1, "/a/c")]
    holes = rows[1]._replace(n=7)
    chain.add([rows[0], holes], kept={1: (6, 5), 2: (9, 8)}, ends={2: 9})
    # The base of a slot in a later backup has no effect: all rows are here.
    chain.add([author.row(1, "/a/c")._replace(n=8)], kept={1: (7, 9)})
    restore(chain.directory, tmp_path / "data")
    recovered, found = await started(tmp_path / "data")
    assert [row.n for row in found[1]] == [4, 7, 8]
    record = recovered.slots[1].record
    assert (record.kept, record.floor, record.decided) == (6, 5, 8)
    empty = recovered.slots[2]
    assert (empty.end, empty.record.kept, empty.record.floor, empty.record.decided) == (9, 9, 8, 9)


async def test_founders_restore_the_same_rows_on_separate_disks(
    chain: Chain, tmp_path: Path
) -> None:
    topic = Topic(name="orders", incarnation="first", resolution=Provision.PROVISIONED)
    author = Author()
    chain.add([author.row(4, topic.link, state=topic.pack())])
    disks = []
    for name in ("n1", "n2"):
        restore(chain.directory, tmp_path / name)
        disks.append(await started(tmp_path / name))
    (one, rows), (two, others) = disks
    assert rows == others
    assert one.slots == two.slots
    assert one.store_id != two.store_id


async def test_topics_and_offsets_are_reset(chain: Chain, tmp_path: Path) -> None:
    topic = Topic(name="orders", incarnation="first", resolution=Provision.PROVISIONED)
    claimed = {"offset": 9, "token": 4, "generation": 2, "member": "m", "recordEpoch": 3}
    author = Author()
    offset = offset_link("/core/groups/g", "orders/0")
    rows = [
        author.row(4, topic.link, state=topic.pack()),
        author.row(4, offset, state=json.dump({**claimed, "metadata": "x"})),
        author.row(4, "/core/streams/gone", deleted=True),
        author.row(4, "/a/b"),
    ]
    chain.add(rows)
    restore(chain.directory, tmp_path / "data")
    recovered, found = await started(tmp_path / "data")
    kept, added = found[4][:4], found[4][4:]
    assert kept == rows
    assert [(row.link, row.version, row.n) for row in added] == [(topic.link, 1, 5), (offset, 1, 6)]
    anew = read_topic(added[0].state)
    assert anew is not None
    assert anew.resolution is Provision.PENDING
    assert anew.incarnation not in ("", "first")
    assert json.load(added[1].state) == {
        **claimed, "offset": -1, "recordEpoch": 0, "metadata": "",
    }  # fmt: skip
    for before, after in zip(rows, added, strict=False):
        assert after.updated_us > rows[-1].updated_us
        assert after.ballot == (1 + JUMP, RESTORE)
        digest = chain_digest(before.digest, after.link, after.version, False, after.state)
        assert after.digest == digest
        assert after.signature == json.signature(json.load(after.state))
    assert recovered.slots[4].record.decided == recovered.slots[4].end == 6


async def test_branches_of_the_last_backup_are_restored(chain: Chain, tmp_path: Path) -> None:
    author = Author()
    old, won, lost = (author.row(5, "/weak/a")._replace(n=n) for n in (70, 71, 90))
    chain.add([], branches=[Branch(old, 1)])
    chain.add([], branches=[Branch(old, 0), Branch(won, 1), Branch(lost, 2)])
    _, count = restore(chain.directory, tmp_path / "data")
    store = small(database_in(tmp_path / "data"))
    recovered = await store.open()
    try:
        arrivals, heads = await store.read([Arrivals(0, 10), Heads(5, "/weak/a")])
    finally:
        await store.close()
    assert arrivals == [old._replace(n=1), won._replace(n=2), lost._replace(n=3)]
    assert heads == arrivals[1:]  # type: ignore[index]
    assert (recovered.arrived, recovered.in_conflict, count) == (3, 1, 3)
    assert BranchStatus.LOSER == 2


async def test_documents_are_found_by_name(chain: Chain, tmp_path: Path) -> None:
    author = Author()
    rows = [author.row(2, "/a/b") for _ in range(3)]
    chain.add(rows[:1])
    chain.add(rows[1:])
    restore(chain.directory, tmp_path / "data")
    store = small(database_in(tmp_path / "data"))
    await store.open()
    try:
        asked = [Newest(2, "/a/b", 9), History(2, "/a/b", None, 9, 9)]
        assert await store.read(asked) == [rows[2:], rows[::-1]]
        assert await store.links("/a/", "", 9, {2: 9}) == [(2, "/a/b", 2)]
    finally:
        await store.close()


def test_a_directory_in_use_is_not_changed(chain: Chain, tmp_path: Path) -> None:
    chain.add([Author().row(1, "/a/b")])
    data = tmp_path / "data"
    data.mkdir()
    (data / "lost+found").mkdir()
    restore(chain.directory, data)
    there = sorted(each.name for each in data.iterdir())
    assert [each.what for each in examine(look(data)) if "MiB left" not in each.what] == []
    assert there == ["docstore.db", "lost+found", "restored.json"]
    with pytest.raises(BadConfig, match="is not empty"):
        restore(chain.directory, data)
    assert sorted(each.name for each in data.iterdir()) == there


def test_an_unfinished_restore_is_found(chain: Chain, tmp_path: Path) -> None:
    chain.add([Author().row(1, "/a/b")])
    restore(chain.directory, tmp_path / "data")
    database_in(tmp_path / "data").rename(unfinished_in(tmp_path / "data"))
    [found] = examine(look(tmp_path / "data"))
    assert "restore it again" in found.what


def test_a_damaged_backup_leaves_no_file(chain: Chain, tmp_path: Path) -> None:
    author = Author()
    chain.add([author.row(1, "/a/b")])
    chain.add([author.row(6, "/a/c")])
    file = place_of(chain.directory, 2) / "slots-00004-00007"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.raises(BadBackup, match="truncated"):
        restore(chain.directory, tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []
    file.write_bytes(whole)
    restore(chain.directory, tmp_path / "data")


def test_a_full_disk_leaves_no_file(chain: Chain, small_disk: Path) -> None:
    author = Author()
    chain.add([author.row(1, f"/a/{n}", state=b"x" * 900_000) for n in range(6)])
    with pytest.raises(DiskFull):
        restore(chain.directory, small_disk / "data")
    assert list((small_disk / "data").iterdir()) == []


def test_rows_of_a_later_version_are_refused(chain: Chain, tmp_path: Path) -> None:
    chain.stored_protocol = PROTOCOL + 1
    chain.add([Author().row(1, "/a/b")])
    with pytest.raises(BadBackup, match=f"this version reads up to {PROTOCOL}"):
        restore(chain.directory, tmp_path / "data")
    chain = Chain(tmp_path / "other", stored_protocol=PROTOCOL)
    chain.add([Author().row(1, "/a/b")])
    assert restore(chain.directory, tmp_path / "data")[0].stored_protocol == PROTOCOL


@pytest.mark.parametrize("said", [(), ("restored.json.new",), ("restored.json",)])
def test_a_killed_restore_starts_again(chain: Chain, tmp_path: Path, said: tuple[str, ...]) -> None:
    chain.add([Author().row(1, "/a/b")])
    data = tmp_path / "data"
    data.mkdir()
    for name in said:  # The killed restore had already written this file.
        (data / name).write_bytes(b"{}")
    for end in ("", "-wal", "-shm"):
        Path(f"{unfinished_in(data)}{end}").write_bytes(b"half")
    with pytest.raises(BadConfig, match="did not finish"):
        restored_in(data)
    assert restore(chain.directory, data)[0] == restored_in(data)
    assert sorted(each.name for each in data.iterdir()) == ["docstore.db", "restored.json"]


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"format":2}', b'{"format":1,"backup":"x"}', b"[]"]
)
def test_an_invalid_note_of_a_restore_prevents_the_start(tmp_path: Path, content: bytes) -> None:
    assert restored_in(tmp_path) is None
    (tmp_path / "restored.json").write_bytes(content)
    with pytest.raises(BadConfig, match="its documents are gone"):
        restored_in(tmp_path)  # A founder without its documents must not start.
    (tmp_path / "docstore.db").touch()
    with pytest.raises(BadConfig, match="was not written by a restore of this version"):
        restored_in(tmp_path)
