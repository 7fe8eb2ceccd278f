"""Checks that the backups of a directory are complete and undamaged, without a node."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from docstore.maintenance.backup.directory import PartReader, manifests_in, place_of
from docstore.maintenance.backup.manifest import BackupFile, Manifest, insist_on_chain
from docstore.reads.blocks import BadBackup, Block, Coverage, unpack_block

Tell = Callable[[Manifest, BackupFile], None]
"""Called after each verified file."""


def chain_in(directory: Path) -> list[Manifest]:
    """Return the backups of a directory, which form a chain. Raises BadBackup, OSError."""
    manifests = manifests_in(directory) if directory.is_dir() else []
    if not manifests:
        raise BadBackup(f"{directory} contains no finished backup; give the directory of a backup")
    insist_on_chain(manifests)
    return manifests


def verify(directory: Path, tell: Tell = lambda manifest, part: None) -> list[Manifest]:
    """Read all files of a chain; return the backups. Raises BadBackup, OSError."""
    manifests = chain_in(directory)
    for before, manifest in zip([None, *manifests], manifests, strict=False):
        for part in manifest.parts:
            for _ in blocks_of(directory, manifest, part, before):
                pass
            tell(manifest, part)
    return manifests


def blocks_of(
    directory: Path, manifest: Manifest, part: BackupFile, before: Manifest | None
) -> Iterator[Block]:
    """Yield the blocks of a file; they are verified once all were read. Raises BadBackup.

    before: the previous backup in the chain.
    """
    file = place_of(directory, manifest.number) / part.name
    reader = PartReader(file)
    check = PartCheck(part.first_slot, part.slots, manifest.ends, before.ends if before else ())
    rows = 0
    try:
        for packed in reader:
            block = unpack_block(packed)
            check.add(block)
            rows += block.rows
            yield block
        check.end()
    except BadBackup as error:
        raise BadBackup(str(error) if str(file) in str(error) else f"{file}: {error}") from None
    reader.insist_on(part)
    if rows != part.rows:
        raise BadBackup(f"{file} has {rows} rows, and its manifest says {part.rows}")


class PartCheck:
    """Checks the blocks of a file against the slots and rows that it must have."""

    def __init__(
        self, first: int, slots: int, ends: Sequence[int], after: Sequence[int] = ()
    ) -> None:
        """ends: last row of each slot in this backup. after: that in the previous backup."""
        self._slots = {
            slot: Coverage(slot, after[slot] if after else 0, ends[slot])
            for slot in range(first, first + slots)
        }

    def add(self, block: Block) -> None:
        for stretch in block.log:
            self._of(stretch.slot).add(stretch)
        for branch in block.branches:
            self._of(branch.row.slot)

    def end(self) -> None:
        """Raise BadBackup unless all rows were added."""
        for coverage in self._slots.values():
            coverage.end()

    def _of(self, slot: int) -> Coverage:
        if slot not in self._slots:
            raise BadBackup(f"slot {slot} does not belong to this file")
        return self._slots[slot]
