"""Conclusions of a start from the files of a journal; places of entries."""

from random import Random

import pytest

from docstore.errors import StoreDamaged
from docstore.storage import journal
from docstore.storage.journal import HEADER_BYTES, PAGE, START, Position
from docstore.storage.ring import Entry, Ring
from tests.disk.disk import Disk, File
from tests.disk.files import DiskOfFiles
from tests.disk.laps import FILE_BYTES, KEY, ring_on

BODIES = [b"one", b"two" * 2000, b"", b"four"]


def opened(disk: Disk, key: bytes = KEY) -> Ring:
    """Return the ring of a new store, with its files."""
    ring = Ring(DiskOfFiles(disk), key, file_bytes=FILE_BYTES, files_max=4)
    assert ring.open(START, may_be_missing=True) == []
    make_files(ring)
    return ring


def make_files(ring: Ring) -> None:
    while (name := ring.wanted()) is not None:
        ring.make(name)
        ring.made(name)


def write(ring: Ring, body: bytes, boot: int = 1) -> Entry:
    entry = ring.next(boot, body)
    assert entry is not None
    ring.files.write(entry.file, entry.offset, entry.parts)
    return entry


def written(disk: Disk, bodies: list[bytes]) -> list[Entry]:
    ring = opened(disk)
    return [write(ring, body) for body in bodies]


def found(disk: Disk, followed: Position = START, *, missing: bool = False) -> list[bytes]:
    """Return the bodies of entries that a start finds after the followed ones."""
    ring = ring_on(DiskOfFiles(disk))
    return [ring.body(each) for each in ring.open(followed, may_be_missing=missing)]


def copy(disk: Disk) -> Disk:
    return disk.killed()


def content(disk: Disk, entry: Entry) -> bytearray:
    return disk.files["journal/" + entry.file].now


# --- whole, torn, damaged ---------------------------------------------------------------------


def test_a_start_finds_the_entries_that_the_tables_lack_in_order() -> None:
    disk = Disk()
    entries = written(disk, BODIES)
    assert found(disk) == BODIES
    for at, entry in enumerate(entries, 1):
        assert found(disk, entry.header.position) == BODIES[at:]


def test_a_flipped_bit_of_any_entry_is_noticed() -> None:
    """Flip a bit of each byte but the padding: the last entry is torn, any other is missing."""
    disk = Disk()
    entries = written(disk, BODIES)
    for number, entry in enumerate(entries, 1):
        for at in range(HEADER_BYTES + entry.header.length):
            content(disk, entry)[entry.offset + at] ^= 0x10
            if number == len(entries):
                assert found(disk) == BODIES[:-1]
            else:
                with pytest.raises(StoreDamaged, match=f"entry {number} of the journal is missing"):
                    found(disk, missing=True)
            content(disk, entry)[entry.offset + at] ^= 0x10


def test_damage_to_followed_entries_does_no_harm() -> None:
    disk = Disk()
    entries = written(disk, BODIES)
    for at, entry in enumerate(entries[:-1], 1):
        content(disk, entry)[entry.offset + 5] ^= 1
        assert found(disk, entry.header.position) == BODIES[at:]


def test_an_entry_is_torn_at_any_sector() -> None:
    disk = Disk()
    *_, last = written(disk, [b"one", Random(1).randbytes(9000)])
    whole = bytes(content(disk, last))
    for start in range(last.offset, last.offset + HEADER_BYTES + 9000, 512):
        content(disk, last)[start : start + 512] = bytes(512)
        assert found(disk) == [b"one"]
        content(disk, last)[:] = whole


def test_the_number_of_a_torn_entry_is_used_again() -> None:
    disk = Disk()
    *_, last = written(disk, BODIES)
    content(disk, last)[last.offset + HEADER_BYTES] ^= 1
    ring = ring_on(DiskOfFiles(disk))
    ring.open(START)
    ring.flushed = ring.end.number
    make_files(ring)
    again = write(ring, b"another four")
    assert again.header.number == last.header.number
    assert found(disk) == [*BODIES[:-1], b"another four"]


def test_a_torn_entry_with_a_reused_number_keeps_no_file() -> None:
    """Pinned: with two files none was left for a start, and the node did not come up again."""
    disk = Disk()

    def started(followed: Position) -> Ring:
        ring = Ring(DiskOfFiles(disk), KEY, file_bytes=FILE_BYTES, files_max=2)
        ring.open(followed, may_be_missing=followed == START)
        make_files(ring)
        ring.flushed = ring.end.number
        return ring

    ring = started(START)
    whole = write(ring, b"whole")
    torn = write(ring, b"torn")
    content(disk, torn)[torn.offset + HEADER_BYTES] ^= 1
    again = write(started(whole.header.position), b"again")
    assert (again.header.number, again.file != torn.file) == (torn.header.number, True)
    assert write(started(again.header.position), b"next").file == torn.file


def test_a_whole_entry_after_a_different_past_is_no_tail() -> None:
    disk = Disk()
    entries = written(disk, BODIES)
    with pytest.raises(StoreDamaged, match="does not follow"):
        found(disk, Position(entries[1].header.number, b"elsewise"), missing=True)


def test_rot_of_an_entry_is_distinguished_from_a_torn_one_by_the_next() -> None:
    """Take even a torn entry as a sign that the one before it was durable."""
    disk = Disk()
    entries = written(disk, [*BODIES, b"the next"])
    content(disk, entries[-1])[entries[-1].offset + HEADER_BYTES] ^= 1
    content(disk, entries[-2])[entries[-2].offset + HEADER_BYTES] ^= 1
    with pytest.raises(StoreDamaged, match="entry 4 of the journal is missing, but 5 exists"):
        found(disk)


# --- lost, older, elsewhere -------------------------------------------------------------------


def test_a_journal_that_is_missing_or_empty_is_damage() -> None:
    disk = Disk()
    entries = written(disk, BODIES)
    emptied = Disk({name: bytearray(FILE_BYTES) for name in disk.files})
    for at in entries:
        for without in (Disk(), emptied):
            with pytest.raises(StoreDamaged, match="journal is missing"):
                found(without, at.header.position)


def test_tables_that_have_followed_everything_need_no_journal() -> None:
    disk = Disk()
    *_, last = written(disk, BODIES)
    elsewhere = Disk()
    ring = ring_on(DiskOfFiles(elsewhere))
    assert ring.open(last.header.position, may_be_missing=True) == []
    make_files(ring)
    assert write(ring, b"numbers go on").header.number == 5
    assert found(elsewhere, last.header.position) == [b"numbers go on"]


def test_a_journal_of_another_store_is_refused_or_ignored() -> None:
    ours, theirs = Disk(), Disk()
    *_, last = written(ours, BODIES)
    ring = opened(theirs, b"another key 1234")
    write(ring, b"theirs")
    with pytest.raises(StoreDamaged, match="of another store"):
        found(theirs, last.header.position)
    assert found(theirs, last.header.position, missing=True) == []


def test_a_journal_restored_from_an_older_copy_is_damage() -> None:
    disk = Disk()
    ring = opened(disk)
    write(ring, b"one")
    older = copy(disk)
    two = write(ring, b"two")
    write(ring, b"three")
    with pytest.raises(StoreDamaged, match="older than the tables"):
        found(older, two.header.position)


def test_older_tables_follow_as_far_as_the_journal_reaches() -> None:
    disk = Disk()
    ring = opened(disk)
    entries: list[Entry] = []
    for number in range(40):
        ring.flushed = ring.end.number
        make_files(ring)
        entries.append(write(ring, b"%d" % number * 2000))
    reach = [each for each in entries if _can(disk, each.header.position)]
    assert reach == entries[-len(reach) :], "an older entry is there and a newer one is not"
    assert 8 < len(reach) < 40
    with pytest.raises(StoreDamaged, match="older than the journal"):
        found(disk, entries[0].header.position)


def _can(disk: Disk, followed: Position) -> bool:
    try:
        return found(disk, followed) is not None
    except StoreDamaged:
        return False


def test_older_tables_that_claim_to_be_complete_are_still_older() -> None:
    disk = Disk()
    ring = opened(disk)
    first = write(ring, b"first")
    for number in range(40):
        ring.flushed = ring.end.number
        make_files(ring)
        write(ring, b"%d" % number * 2000)
    with pytest.raises(StoreDamaged, match="is missing, but"):
        found(disk, first.header.position, missing=True)


def test_files_may_be_swapped_as_entries_are_numbered() -> None:
    disk = Disk()
    written(disk, [b"%d" % number * 3000 for number in range(5)])
    zero, one = disk.files["journal/0"], disk.files["journal/1"]
    disk.files |= {"journal/0": one, "journal/1": zero}
    assert len(found(disk)) == 5


def test_a_shortened_file_is_made_anew_once_none_of_its_entries_is_needed() -> None:
    disk = Disk()
    bodies = [b"%d" % number * 9000 for number in range(4)]
    entries = written(disk, bodies)
    first = entries[0].file
    assert entries[-1].file != first
    del content(disk, entries[0])[-PAGE:]
    ring = ring_on(DiskOfFiles(disk))
    ring.open(START)
    assert ring.wanted() != first
    ring.flushed = ring.end.number
    assert ring.wanted() == first
    make_files(ring)
    assert len(content(disk, entries[0])) == FILE_BYTES


def test_foreign_files_are_left_alone() -> None:
    disk = Disk()
    written(disk, BODIES)
    disk.files["journal/ballast"] = File(bytearray(b"DSJ1"))
    assert found(disk) == BODIES


@pytest.mark.parametrize("bodies", [[], BODIES])
def test_a_ring_knows_without_its_key_whether_it_was_ever_written(bodies: list[bytes]) -> None:
    disk = Disk()
    written(disk, bodies)
    ring = Ring(DiskOfFiles(disk), b"not known at all", file_bytes=FILE_BYTES, files_max=4)
    assert ring.is_written() == bool(bodies)


def test_the_greatest_number_of_a_start_is_found_in_any_entry() -> None:
    disk = Disk()
    ring = opened(disk)
    for boot in (4, 5, 5):
        last = write(ring, b"x", boot)
    content(disk, last)[last.offset + HEADER_BYTES] ^= 1
    again = ring_on(DiskOfFiles(disk))
    again.open(START)
    assert again.boot == 5


def test_a_document_that_looks_like_an_entry_is_not_one() -> None:
    """Put it at the edge of a page, with its writer's stamp, and a number far ahead."""
    header, parts = journal.packed(b"guessed key 1234", 9, Position(1 << 40, b"12345678"), b"mine")
    forged = b"".join(parts)[: HEADER_BYTES + 4]
    unkeyed = bytearray(forged)
    body = bytes(PAGE - HEADER_BYTES) + forged + bytes(PAGE - len(forged)) + bytes(unkeyed)
    disk = Disk()
    written(disk, [body, b"after"])
    assert header.number > 1 << 40
    assert found(disk) == [body, b"after"]


# --- where entries go -------------------------------------------------------------------------


def test_entries_have_their_own_pages() -> None:
    entries = written(Disk(), BODIES)
    assert [entry.offset for entry in entries] == [0, PAGE, 3 * PAGE, 4 * PAGE]
    assert all(sum(map(len, entry.parts)) % PAGE == 0 for entry in entries)


def test_a_file_is_reused_only_once_the_tables_have_it_durably() -> None:
    ring = opened(Disk())
    body = bytes(FILE_BYTES // 2 - HEADER_BYTES)
    assert ring.fits(len(body))
    assert not ring.fits(len(body) + 1)
    count = 0
    while True:
        make_files(ring)
        if ring.next(1, body) is None:
            break
        count += 1
    assert count == 2 * 4, "two in each of four files"
    ring.flushed = 1
    assert ring.next(1, body) is None
    ring.flushed = 2
    entry = ring.next(1, body)
    assert entry is not None
    assert (entry.file, entry.offset) == ("0", 0)


def test_the_file_of_the_last_entry_is_not_reused() -> None:
    """Keep it, as the next start compares the tables with it."""
    disk = Disk()
    ring = opened(disk)
    last = write(ring, b"last")
    for name in [name for name in disk.files if name != f"journal/{last.file}"]:
        del disk.files[name]
    ring = ring_on(DiskOfFiles(disk))
    ring.open(last.header.position)
    assert ring.next(2, b"next") is None
    make_files(ring)
    assert write(ring, b"next").file != last.file


def test_a_commit_to_the_tables_alone_takes_a_number() -> None:
    disk = Disk()
    ring = opened(disk)
    first = write(ring, b"first")
    ring.end = ring.skip(1)
    second = ring.end
    assert found(disk, second, missing=True) == []
    write(ring, b"third")
    assert found(disk, second) == [b"third"]
    with pytest.raises(StoreDamaged, match="entry 2 of the journal is missing"):
        found(disk, first.header.position)
