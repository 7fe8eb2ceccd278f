"""A chain of backups is whole, or the error names the faulty file and the fault."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from docstore.maintenance.backup.directory import (
    PartWriter,
    locked,
    manifest_in,
    manifests_in,
    place_of,
    unfinished,
)
from docstore.maintenance.backup.verifying import verify
from docstore.model import durable_files
from docstore.reads.blocks import BadBackup, Block, Coverage, LogChunk, pack_block, unpack_block
from tests.docstore.maintenance.backup.chains import Chain
from tests.docstore.storage.logs import Author

FILES = ["manifest.json", "slots-00000-00003", "slots-00004-00007"]


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    """Return three backups: with rows in slots 1 and 6, then in slot 1, then none."""
    chain, author = Chain(tmp_path / "backups"), Author()
    first = [author.row(slot, f"/a/{slot}-{n}") for slot in (1, 6) for n in range(5)]
    chain.add([*first, author.row(1, "/a/1-0", deleted=True)])
    chain.add([author.row(1, "/a/1-0"), author.row(1, "/a/new")])
    chain.add([])
    return chain


def fault_of(directory: Path) -> str:
    """Return why a directory is not valid, as the verification must find."""
    with pytest.raises(BadBackup) as error:
        verify(directory)
    assert "\n" not in str(error.value)
    return str(error.value)


def changed(file: Path, change: Callable[[bytes], bytes]) -> None:
    file.write_bytes(change(file.read_bytes()))


def test_a_whole_chain_is_valid(chain: Chain) -> None:
    read: list[tuple[int, str]] = []
    found = verify(
        chain.directory, lambda manifest, part: read.append((manifest.number, part.name))
    )
    assert found == chain.taken
    assert [each.rows for each in found] == [11, 2, 0]
    assert read == [(number, name) for number in (1, 2, 3) for name in FILES[1:]]


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_found(chain: Chain, name: str) -> None:
    file = place_of(chain.directory, 1) / name
    whole = file.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 40)):
        durable_files.replace(file, whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        assert str(file) in fault_of(chain.directory)
    durable_files.replace(file, whole)
    verify(chain.directory)


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_is_found(chain: Chain, name: str) -> None:
    file = place_of(chain.directory, 2) / name
    whole = file.read_bytes()
    for length in (0, 3, len(whole) // 2, len(whole) - 1):
        durable_files.replace(file, whole[:length])
        assert str(file) in fault_of(chain.directory)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_found(chain: Chain, name: str) -> None:
    file = place_of(chain.directory, 2) / name
    file.unlink()
    assert f"{file} is missing" in fault_of(chain.directory)


def test_a_repeated_block_is_found(chain: Chain) -> None:
    file = place_of(chain.directory, 1) / FILES[1]
    changed(file, lambda whole: whole + whole)
    assert "row 1 comes after row 6" in fault_of(chain.directory)


def test_a_missing_backup_within_a_chain_is_found(chain: Chain) -> None:
    place_of(chain.directory, 2).rename(chain.directory / "elsewhere")
    assert "backup 3 is where number 2 should be" in fault_of(chain.directory)


def test_a_chain_without_its_last_backups_is_valid(chain: Chain) -> None:
    place_of(chain.directory, 3).rename(chain.directory / "elsewhere")
    assert [each.number for each in verify(chain.directory)] == [1, 2]


def test_a_backup_of_another_chain_is_found(chain: Chain, tmp_path: Path) -> None:
    other, author = Chain(tmp_path / "other"), Author()
    other.add([author.row(1, "/b/1")])
    other.add([author.row(1, "/b/2")])
    place_of(chain.directory, 2).rename(chain.directory / "elsewhere")
    place_of(other.directory, 2).rename(place_of(chain.directory, 2))
    assert "backup 2 ends before the manifest before it ends" in fault_of(chain.directory)


def test_an_edited_manifest_is_found(chain: Chain) -> None:
    file = place_of(chain.directory, 2) / "manifest.json"
    page = json.loads(file.read_bytes())
    page["previous"] = "0" * 32
    file.write_text(json.dumps(page))
    assert f"{file} is damaged: its checksum is wrong" in fault_of(chain.directory)


def test_a_format_of_a_later_version_is_named(chain: Chain) -> None:
    file = place_of(chain.directory, 1) / "manifest.json"
    changed(file, lambda whole: whole.replace(b'"format": 1', b'"format": 2'))
    assert "has format 2; this version reads 1" in fault_of(chain.directory)


@pytest.mark.parametrize("left", [[], ["unfinished"]])
def test_a_directory_without_a_finished_backup_is_an_error(tmp_path: Path, left: list[str]) -> None:
    for name in left:
        (tmp_path / f"000001.{name}").mkdir()
    assert "contains no finished backup" in fault_of(tmp_path)
    assert "contains no finished backup" in fault_of(tmp_path / "nowhere")


def test_a_backup_under_another_number_is_found(chain: Chain) -> None:
    place_of(chain.directory, 3).rename(chain.directory / "4")
    with pytest.raises(BadBackup, match="already contains backup 3"):
        manifests_in(chain.directory)


def test_an_unfinished_part_leaves_no_file(tmp_path: Path) -> None:
    with PartWriter(tmp_path / "slots") as writer:
        writer.add(b"half")
        assert list(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_locked_by_one_backup(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(BadBackup, match="by another backup"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_a_plan_is_read_as_it_was_written(chain: Chain) -> None:
    plan = chain.taken[0].with_parts([])
    path = unfinished(chain.directory, 9)
    path.mkdir()
    durable_files.replace(path / "plan.json", plan.pack())
    assert manifest_in(path / "plan.json") == plan


def test_rows_are_unpacked_as_they_were_packed() -> None:
    author = Author()
    rows = [author.row(3, "/a/b", state=b'{"x":"\xc3\xa4"}'), author.row(3, "/a/b", deleted=True)]
    block = unpack_block(pack_block(Block(log=[LogChunk(3, 7, 2, 1, rows)])))
    assert [tuple(each) for each in block.log] == [(3, 7, 2, 1, rows)]
    assert block.rows == 2
    with pytest.raises(BadBackup):
        unpack_block(b"no block")


def covered(after: int, until: int, *stretches: tuple[int, int, list[int]]) -> tuple[int, int]:
    """Check rows with some numbers against a slot. stretches: (kept, floor, numbers)."""
    held = sum(n <= kept for kept, _, numbers in stretches for n in numbers)
    return covered_of(after, until, *((kept, floor, held, its) for kept, floor, its in stretches))


def covered_of(
    after: int, until: int, *stretches: tuple[int, int, int, list[int]]
) -> tuple[int, int]:
    """Do the same with the number of held rows. stretches: (kept, floor, held, numbers)."""
    coverage = Coverage(0, after, until)
    row = Author().row(0, "/a/b")
    for kept, floor, held, numbers in stretches:
        coverage.add(LogChunk(0, kept, floor, held, [row._replace(n=n) for n in numbers]))
    return coverage.end()


def test_a_slot_is_covered_without_a_hole() -> None:
    assert covered(0, 0) == (0, -1)
    assert covered(0, 3, (0, -1, [1, 2]), (0, -1, [3])) == (0, -1)
    assert covered(4, 6, (9, 9, [5]), (0, -1, [6])) == (0, -1)
    # Up to `kept` there are holes, possibly up to the cut itself.
    assert covered(0, 9, (7, 5, [2, 6]), (7, 5, [8, 9])) == (7, 5)
    assert covered(0, 9, (9, 5, [2, 6])) == (9, 5)


def test_a_tombstone_compacted_between_two_pages_is_found() -> None:
    with pytest.raises(BadBackup, match="history was compacted while it was read"):
        covered_of(0, 9, (7, 5, 3, [2]), (7, 5, 2, [6, 8, 9]))
    with pytest.raises(BadBackup, match="2 rows instead of 3 up to 7"):
        covered_of(0, 9, (7, 5, 3, [2]), (7, 5, 3, [6, 8, 9]))


@pytest.mark.parametrize(
    ("after", "until", "chunks", "why"),
    [
        (0, 3, [(0, -1, [1, 3])], "row 3 comes after row 1"),
        (0, 3, [(0, -1, [2, 3])], "row 2 comes after row 0"),
        (4, 6, [(0, -1, [6])], "row 6 comes after row 4"),
        (0, 2, [(0, -1, [1, 1, 2])], "row 1 comes after row 1"),
        (0, 2, [(0, -1, [1, 2, 3])], "row 3 comes after row 2"),
        (0, 3, [(0, -1, [1, 2])], "rows end at 2 instead of 3"),
        (4, 6, [(6, 5, [5])], "rows end at 5 instead of 6"),
        (0, 9, [(7, 5, [2, 6, 9])], "row 9 comes after row 6"),
        (0, 9, [(3, 5, [2, 4]), (7, 6, [8, 9])], "history was compacted while it was read"),
    ],
)
def test_a_hole_in_a_slot_is_found(
    after: int, until: int, chunks: list[tuple[int, int, list[int]]], why: str
) -> None:
    with pytest.raises(BadBackup, match=f"slot 0: {why}"):
        covered(after, until, *chunks)
