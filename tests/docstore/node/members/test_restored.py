"""Founders with disks of a backup found a group only with others of the same backup."""

from pathlib import Path
from typing import Any

import pytest

from docstore.config import Config
from docstore.errors import BadConfig
from docstore.maintenance.restored import Restored
from docstore.model.document import Row
from docstore.node.members.founding import Founding
from docstore.ownership import configuration as configurations
from docstore.ownership.configuration import Founder, unpack_registered
from docstore.storage.store import Append, Recovered, Rows, SaveSlot, SlotRecord, Status
from tests.docstore.storage.logs import Author
from tests.memory.memory import MemoryStore

FOUNDERS = tuple(Founder(name, "h", port) for port, name in enumerate("abcde", 1))
BACKUP = Restored(backup="b1", group="old", slots=8, cut="~token", stored_protocol=2)
REIGN = (7, "restore")


@pytest.fixture(autouse=True)
def reads_the_backup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nodes read the stored protocol of the backup."""
    monkeypatch.setattr(configurations, "PROTOCOL", BACKUP.stored_protocol)


def config_of(name: str, data: Path, **settings: Any) -> Config:
    at = next(each.address for each in FOUNDERS if each.id == name)
    places = {"advertise": at, "peer_advertise": at, "gossip_advertise": at}
    given: dict[str, Any] = {"bootstrap": FOUNDERS, "node_id": name, "slots": 8, **settings}
    return Config(data=data, **places, **given)


def founding_of(
    name: str, data: Path, recovered: Recovered, restored: Restored | None, **settings: Any
) -> Founding:
    return Founding(
        config_of(name, data, **settings), name, recovered,
        learnt=lambda packed: None, outdated=lambda boot: None, restored=restored,
    )  # fmt: skip


async def test_only_founders_with_the_same_backup_found_a_group(tmp_path: Path) -> None:
    """Rule M8."""
    one, other, empty, later = [
        founding_of(name, tmp_path, await MemoryStore().open(), of)
        for name, of in [
            ("a", BACKUP), ("b", BACKUP), ("c", None), ("d", BACKUP._replace(backup="b2")),
        ]
    ]  # fmt: skip
    assert one.admit(other.hello("a")) is None
    for stranger in (empty, later):
        assert one.admit(stranger.hello("a")) == "another cluster"
        assert stranger.admit(one.hello("")) == "another cluster"


async def test_slots_that_others_hold_go_at_the_founding(tmp_path: Path) -> None:
    """Found a group of five with three replicas; the disk has all slots, as the backup had."""
    store, author = MemoryStore(), Author()
    rows = {slot: author.row(slot, f"/x/{slot}") for slot in range(8)}
    await store.open()
    record = SlotRecord(0, promised=REIGN, adopted=REIGN, decided=1)
    writes = [SaveSlot(SlotRecord(slot, REIGN, REIGN, decided=1)) for slot in rows]
    await store.commit([Append(list(rows.values())), *writes])
    founding = founding_of("a", tmp_path, await store.recover(), BACKUP, replication_factor=3)
    for each in FOUNDERS[1:]:
        other = founding_of(each.id, tmp_path, await MemoryStore().open(), BACKUP)
        assert founding.admit(other.hello("a")) is None
    configuration = await founding.configuration(store)
    assert configuration.stored_protocol == 2
    held = set(configuration.placement().held_by("a"))
    assert 0 < len(held) < 8
    recovered = await store.recover()
    assert recovered.configuration is not None
    assert unpack_registered(recovered.configuration).decided == configuration
    found = await store.read([Rows(slot, 1, 1) for slot in rows])
    for (slot, row), there in zip(rows.items(), found, strict=True):
        expected: list[Row] = [row] if slot in held else []
        kept = recovered.slots[slot].record
        assert there == expected
        assert kept.promised == record.promised
        assert kept.status is (Status.FULL if slot in held else Status.FAULTY)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"join": ("http://h:9",), "bootstrap": ()}, "it must found a group"),
        ({"standby": True, "bootstrap": ()}, "it must found a group"),
        ({"slots": 16}, "of a group with 8 slots, not 16"),
    ],
)
async def test_a_restored_disk_refuses_settings_that_do_not_fit_its_backup(
    tmp_path: Path, settings: dict[str, Any], why: str
) -> None:
    recovered = await MemoryStore().open()
    with pytest.raises(BadConfig, match=why):
        founding_of("a", tmp_path, recovered, BACKUP, **settings)
    founding_of("a", tmp_path, recovered, None, **settings)


async def test_settings_of_the_founding_are_ignored_once_founded(tmp_path: Path) -> None:
    store = MemoryStore()
    founding = founding_of("a", tmp_path, await store.open(), BACKUP, bootstrap=())
    cluster = (await founding.configuration(store)).cluster_id
    again = founding_of("a", tmp_path, await store.recover(), BACKUP, slots=16, bootstrap=())
    assert again.cluster_id == cluster == founding.cluster_id
    alone = founding_of("a", tmp_path, await MemoryStore().open(), None, bootstrap=())
    assert alone.cluster_id != cluster


async def test_a_joining_node_with_another_number_of_slots_is_refused(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    first = founding_of("a", tmp_path, await store.open(), None, bootstrap=())
    joins = founding_of(
        "b", tmp_path, await MemoryStore().open(), None, bootstrap=(), join=("http://h:1",),
        slots=16, founded=frozenset({"slots"}),
    )  # fmt: skip
    joins.current = await first.configuration(store)
    with pytest.raises(BadConfig, match="slots: the group was founded with 8"):
        await joins.configuration(MemoryStore())
