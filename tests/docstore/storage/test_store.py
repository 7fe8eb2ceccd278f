"""The contract of storage for documents, for every store."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from docstore.model.document import Row
from docstore.storage.inserts import MANY
from docstore.storage.listing import LINES_AT_ONCE
from docstore.storage.store import (
    UNBOUNDED,
    After,
    Append,
    AsOf,
    Erase,
    History,
    Newest,
    Query,
    Rows,
    SaveConfiguration,
    SaveSlot,
    SlotRecord,
    SlotRecovered,
    Status,
    Store,
    Trim,
    Truncate,
    Version,
)
from tests.docstore.storage.conftest import Disk
from tests.docstore.storage.logs import FOR_EVER, Author

A, B = "/notes/a", "/notes/b"

RECORD = SlotRecord(
    slot=3,
    promised=(7, "n2"),
    adopted=(6, "n1"),
    ballots=(((1, "n1"), 1), ((6, "ñ"), 40)),
    kept=39,
    floor=12,
    decided=41,
    status=Status.FAULTY,
)


def all_of(*slots: int) -> dict[int, int]:
    """Return bounds beyond every row of some slots."""
    return dict.fromkeys(slots, UNBOUNDED)


async def one(store: Store, query: Query) -> list[Row]:
    [result] = await store.read([query])
    assert isinstance(result, list)
    return result


async def test_a_new_disk_is_empty_and_has_a_unique_id(disk: Disk) -> None:
    recovered = await disk.store.recover()
    assert (recovered.boot, recovered.configuration, recovered.slots) == (1, None, {})
    assert len(recovered.store_id) == 32


async def test_each_start_counts_and_recover_does_not(disk: Disk) -> None:
    first = await disk.store.recover()
    boots = [(await disk.restart()).boot for _ in range(3)]
    assert boots == [2, 3, 4]
    assert await disk.store.recover() == replace(first, boot=4)


async def test_rows_come_back_with_every_field(store: Store) -> None:
    row = Author().row(5, "/é/\U0001f600", state=b"\x00\xff", epoch=1 << 40, owner="ñ")
    await store.commit([Append([row])])
    assert await one(store, Newest(5, row.link, FOR_EVER)) == [row]
    assert (await one(store, Rows(5, 1, 1)))[0].deleted is False


async def test_newest_and_version_stop_at_until(store: Store) -> None:
    rows = await Author().append(store, 1, A, B, A, A)
    assert await one(store, Newest(1, A, FOR_EVER)) == [rows[3]]
    assert await one(store, Newest(1, A, 3)) == [rows[2]]
    assert await one(store, Newest(1, A, 2)) == [rows[0]]
    assert await one(store, Newest(1, B, 1)) == []
    assert await one(store, Version(1, A, 1, 3)) == [rows[2]]
    assert await one(store, Version(1, A, 1, 2)) == []
    assert await one(store, Version(1, A, 9, FOR_EVER)) == []
    assert await one(store, Newest(2, A, FOR_EVER)) == []


async def test_as_of_gives_the_row_current_at_an_instant(store: Store) -> None:
    author = Author()
    rows = [author.row(1, A, updated_us=at) for at in (100, 200, 300)]
    await store.commit([Append(rows)])
    for at_us, expected in ((99, []), (100, rows[:1]), (299, rows[1:2]), (900, rows[2:])):
        assert await one(store, AsOf(1, A, at_us, FOR_EVER)) == expected
    assert await one(store, AsOf(1, A, 900, 2)) == [rows[1]]


async def test_history_pages_from_the_newest_backwards(store: Store) -> None:
    rows = await Author().append(store, 1, A, B, A, A, A)
    mine = [row for row in rows if row.link == A][::-1]
    assert await one(store, History(1, A, None, 2, FOR_EVER)) == mine[:2]
    assert await one(store, History(1, A, mine[1].version, 2, FOR_EVER)) == mine[2:]
    assert await one(store, History(1, A, None, 9, 4)) == mine[1:]
    assert await one(store, History(1, A, 0, 9, FOR_EVER)) == []


async def test_rows_come_in_order_of_n_until_the_log_ends(store: Store) -> None:
    rows = await Author().append(store, 1, B, A, B, "/0", A)
    assert await one(store, Rows(1, 1, 99)) == rows
    assert await one(store, Rows(1, 2, 3)) == rows[1:3]
    assert await one(store, Rows(1, 6, 9)) == []
    assert await one(store, Rows(8, 1, 9)) == []


async def test_bytes_max_cuts_an_answer_but_leaves_one_row(store: Store) -> None:
    rows = await Author().append(store, 1, A, B, A, state=b"x" * 1000)
    assert await one(store, Rows(1, 1, 3, bytes_max=1)) == rows[:1]
    assert await one(store, Rows(1, 1, 3, bytes_max=2500)) == rows[:2]
    assert await one(store, Rows(1, 2, 3, bytes_max=1 << 20)) == rows[1:]


async def test_cut_makes_the_newest_remaining_row_current(disk: Disk) -> None:
    store = disk.store
    rows = await Author().append(store, 1, A, A, B, A)
    other = await Author().append(store, 2, "/notes/c")
    await store.commit([Truncate(1, 2)])
    assert await one(store, Rows(1, 1, 9)) == rows[:2]
    assert await one(store, Newest(1, A, FOR_EVER)) == [rows[1]]
    assert await one(store, Newest(1, B, FOR_EVER)) == []
    assert await one(store, Newest(2, "/notes/c", FOR_EVER)) == other
    assert (await disk.restart()).slots[1].end == 2
    assert await disk.store.count("/notes/", all_of(1, 2)) == {1: 1, 2: 1}


async def test_cut_of_a_deletion_brings_the_document_back(store: Store) -> None:
    author = Author()
    [row] = await author.append(store, 1, A)
    await author.append(store, 1, A, deleted=True)
    assert await store.links("/notes/", "", 9, all_of(1)) == []
    await store.commit([Truncate(1, 1)])
    assert await store.links("/notes/", "", 9, all_of(1)) == [(1, A, 0)]
    assert await one(store, Newest(1, A, FOR_EVER)) == [row]


async def test_a_trim_keeps_the_counted_versions_or_the_newest(disk: Disk) -> None:
    store, other = disk.store, "/other/a"
    rows = await Author().append(store, 1, A, other, A, A, other, A, B, A)
    await store.commit([Trim(1, 0, 6, {"/notes": 2}), SaveSlot(SlotRecord(1, kept=6))])
    left = [rows[3], rows[4], rows[5], rows[6], rows[7]]
    assert await one(store, After(1, 0, 9, 9)) == left
    assert await one(store, Version(1, A, 1, FOR_EVER)) == []
    await store.commit([Trim(1, 6, 8, {"/notes": 2}), SaveSlot(SlotRecord(1, kept=8))])
    assert await one(store, History(1, A, None, 9, FOR_EVER)) == [rows[7], rows[5]]
    assert (await disk.restart()).slots[1].end == 8
    assert await one(disk.store, After(1, 0, 9, 9)) == [rows[4], rows[5], rows[6], rows[7]]


async def test_a_batch_is_executed_in_its_order(store: Store) -> None:
    mine, theirs = Author(), Author()
    await mine.append(store, 1, A, B, A)
    theirs.row(1, A)
    rows = [theirs.row(1, link) for link in (A, A, B)]
    lost = mine.row(1, B)
    await store.commit(
        [Append([lost]), Truncate(1, 1), Append(rows), SaveSlot(SlotRecord(1, (2, "n2")))]
    )
    assert (await one(store, Rows(1, 1, 9)))[1:] == rows
    assert await one(store, Newest(1, B, FOR_EVER)) == rows[2:]


async def test_erase_takes_the_rows_and_leaves_the_record(disk: Disk) -> None:
    author = Author()
    await author.append(disk.store, 3, A, B)
    await disk.store.commit([SaveSlot(SlotRecord(3, promised=(4, "n4"))), Erase(3)])
    assert await one(disk.store, Newest(3, A, FOR_EVER)) == []
    assert await disk.store.count("/notes/", all_of(3)) == {}
    record = SlotRecord(3, promised=(4, "n4"))
    assert (await disk.restart()).slots == {3: SlotRecovered(record, 0, 0)}


async def test_a_copy_may_replace_a_slot_in_one_batch(disk: Disk) -> None:
    await Author().append(disk.store, 3, A, B)
    copy = Author(ends={3: 39})
    rows = [copy.row(3, A), copy.row(3, "/notes/c")]
    await disk.store.commit([Erase(3), Append(rows), SaveSlot(RECORD)])
    assert await one(disk.store, Rows(3, 1, 99)) == rows
    assert (await disk.restart()).slots == {3: SlotRecovered(RECORD, 41, 41_000)}


async def test_records_and_configuration_survive_a_restart(disk: Disk) -> None:
    await disk.store.commit([SaveSlot(SlotRecord(3)), SaveConfiguration(b"one")])
    await disk.store.commit([SaveConfiguration(b"\x00two"), SaveSlot(RECORD)])
    recovered = await disk.restart()
    assert recovered.configuration == b"\x00two"
    assert recovered.slots == {3: SlotRecovered(RECORD, 39, 0)}


async def test_recovery_finds_slots_with_and_without_records(disk: Disk) -> None:
    author = Author()
    await author.append(disk.store, 900, A)
    await author.append(disk.store, 2, B, B)
    await disk.store.commit([SaveSlot(SlotRecord(5))])
    slots = (await disk.restart()).slots
    assert list(slots) == [2, 5, 900]
    assert [slots[slot].end for slot in slots] == [2, 0, 1]
    assert slots[2].updated_us == 2000


async def test_one_list_of_queries_is_answered_in_its_order(store: Store) -> None:
    rows = await Author().append(store, 1, A, B)
    queries = [Newest(1, B, 9), Newest(1, "/no", 9), Rows(1, 1, 1), Version(1, B, 0, 9)]
    assert await store.read(queries) == [rows[1:], [], rows[:1], rows[1:]]
    assert await store.read([]) == []


async def test_many_rows_in_a_batch_and_many_queries_at_once(store: Store) -> None:
    author = Author()
    links = [f"/notes/{i}" for i in range(3 * MANY + 5)]
    slots = {link: i % 4 for i, link in enumerate(links)}
    await store.commit([Append([author.row(slots[link], link) for link in links])])
    await store.commit([Append([author.row(slots[link], link) for link in links[: 2 * MANY]])])
    asked = [
        link for pair in zip(links, [f"{link}/no" for link in links], strict=True) for link in pair
    ]
    queries = [Newest(slots.get(link, 1), link, FOR_EVER) for link in asked]
    found = [[author.newest[link]] if link in slots else [] for link in asked]
    assert await store.read(queries) == found
    absent = [query for query, rows in zip(queries, found, strict=True) if not rows]
    assert await store.read(absent) == [[]] * len(absent)
    counted = await store.count("/notes/", all_of(*range(4)))
    assert counted == Counter(slots.values())


async def test_links_are_live_direct_children_in_order_and_in_pages(store: Store) -> None:
    author = Author()
    names = ["b", "a", "a/x", "a/x/y", "a0", "é", "c"]
    await author.append(store, 1, *(f"/notes/{name}" for name in names))
    await author.append(store, 1, "/note", "/notes", "/notes0", "/other/a")
    await author.append(store, 2, "/notes/d", "/notes/e")
    await author.append(store, 1, "/notes/c", deleted=True)
    both = all_of(1, 2)
    everything = await store.links("/notes/", "", 99, both)
    assert [link[7:] for _, link, _ in everything] == ["a", "a0", "b", "d", "e", "é"]
    assert [slot for slot, _, _ in everything] == [1, 1, 1, 2, 2, 1]
    assert await store.links("/notes/", "", 2, both) == everything[:2]
    assert await store.links("/notes/", "/notes/a0", 2, both) == everything[2:4]
    assert await store.links("/notes/", "", 99, all_of(2)) == everything[3:5]
    assert await store.links("/notes/a/", "", 99, both) == [(1, "/notes/a/x", 0)]
    assert await store.links("/", "", 99, both) == [
        (1, "/note", 0),
        (1, "/notes", 0),
        (1, "/notes0", 0),
    ]
    assert await store.links("/notes/", "", 0, both) == []
    assert await store.count("/notes/", both) == {1: 4, 2: 2}
    assert await store.count("/notes/", all_of(2)) == {2: 2}
    assert await store.count("/", both) == {1: 3}


async def test_documents_below_a_path_are_found_at_any_depth(store: Store) -> None:
    author = Author()
    under = ("/s/a", "/s/a/p/0", "/s/a/p/1", "/s/b", "/s/b/p/0", "/s/é")
    await author.append(store, 1, *under, "/s", "/s/", "/s0", "/r/a", "/sa/p")
    await author.append(store, 2, "/s/a/p/2", "/t/a")
    newest = await author.append(store, 1, "/s/a/p/1")
    await author.append(store, 1, "/s/b", "/s/b/p/0", deleted=True)
    found = await store.below("/s/", {1, 2, 7})
    assert [row.link for row in found] == [*under[:3], "/s/a/p/2", "/s/é"]
    assert found[2] == newest[0]
    assert [row.link for row in await store.below("/s/", [2])] == ["/s/a/p/2"]
    assert [row.link for row in await store.below("/s/a/p/", [1])] == ["/s/a/p/0", "/s/a/p/1"]
    assert await store.below("/s/", []) == await store.below("/u/", [1, 2]) == []


async def test_below_finds_more_than_one_read_returns(store: Store) -> None:
    links = [f"/s/a/p/{number:05}" for number in range(LINES_AT_ONCE + 1)]
    await Author().append(store, 1, *links)
    assert [row.link for row in await store.below("/s/", [1])] == links


async def test_links_come_with_their_newest_version(store: Store) -> None:
    await Author().append(store, 1, A, B, A)
    assert await store.links("/notes/", "", 9, all_of(1)) == [(1, A, 1), (1, B, 0)]


async def test_links_and_counts_reflect_the_rows_up_to_a_bound(store: Store) -> None:
    author = Author()
    await author.append(store, 1, A, B, "/notes/c", "/notes/d")
    await author.append(store, 1, A)
    await author.append(store, 1, "/notes/c", "/notes/d", deleted=True)
    await author.append(store, 1, "/notes/a/x", "/notes/b0")
    await author.append(store, 1, "/notes/d")
    await author.append(store, 2, "/notes/e")
    first = [(1, A, 0), (1, B, 0), (1, "/notes/c", 0), (1, "/notes/d", 0)]
    assert await store.links("/notes/", "", 99, {1: 4}) == first
    assert await store.links("/notes/", "", 2, {1: 4}) == first[:2]
    assert await store.links("/notes/", B, 1, {1: 4}) == first[2:3]
    assert await store.links("/notes/", "", 99, {1: 6}) == [(1, A, 1), *first[1:2], first[3]]
    assert await store.links("/notes/", "", 99, {1: 0, 2: 1}) == [(2, "/notes/e", 0)]
    counts = [(await store.count("/notes/", {1: n})).get(1, 0) for n in range(11)]
    assert counts == [0, 1, 2, 3, 4, 4, 3, 2, 2, 3, 4]
    listed = [await store.links("/notes/", "", 99, {1: n}) for n in range(11)]
    assert [len(each) for each in listed] == counts


async def test_digests_depend_on_newest_rows_only_and_not_on_their_order(store: Store) -> None:
    await Author().append(store, 1, A, B, B, state=b"{}")
    await Author().append(store, 2, B, A, B, state=b"{}")
    digests = await store.digests([1, 2, 7])
    assert digests[1] == digests[2] != digests[7]
    assert digests[1][:2] == (3, 2)
    assert digests[7] == (0, 0, "0" * 32)


async def test_digests_leave_deleted_links_out(store: Store) -> None:
    author = Author()
    await author.append(store, 1, A)
    before = (await store.digests([1]))[1]
    await author.append(store, 1, A, deleted=True)
    end, links, digest = (await store.digests([1]))[1]
    assert (end, links) == (2, 0)
    assert digest != before[2]


async def test_the_result_of_a_batch_is_given_later_and_once(store: Store) -> None:
    results: list[Exception | None] = []
    row = Author().row(1, A)
    done = asyncio.Event()

    def then(error: Exception | None) -> None:
        results.append(error)
        done.set()

    store.submit([Append([row])], then)
    assert results == []
    async with asyncio.timeout(10):
        await done.wait()
    assert await one(store, Newest(1, A, FOR_EVER)) == [row]
    assert results == [None]


async def test_a_hurry_makes_the_file_complete_soon(store: Store) -> None:
    await Author().append(store, 1, A)
    assert store.behind([1, 2]) in ({1: 1}, {})
    store.hurry()
    async with asyncio.timeout(5):
        while store.behind([1]):
            await asyncio.sleep(0)


async def test_close_can_be_called_twice(disk: Disk) -> None:
    await disk.store.close()
    await disk.store.close()


async def test_an_empty_batch_changes_nothing(store: Store) -> None:
    await store.commit([])
    await store.commit([Append([])])
    assert (await store.recover()).slots == {}


@pytest.mark.parametrize("size", [0, 1, 5000, 1 << 20])
async def test_states_of_any_size(store: Store, size: int) -> None:
    [row] = await Author().append(store, 1, A, state=b"\xab" * size)
    assert await one(store, Newest(1, A, FOR_EVER)) == [row]
