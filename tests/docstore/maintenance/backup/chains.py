"""Handmade chains of backups of a group of eight slots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from docstore.maintenance.backup.directory import (
    PartWriter,
    finish,
    make,
    part_name,
    unfinished,
)
from docstore.maintenance.backup.manifest import BackupFile, Manifest
from docstore.model import durable_files
from docstore.model.document import Row
from docstore.reads.blocks import Block, Branch, LogChunk, pack_block

SLOTS, SLOTS_A_PART = 8, 4
GROUP = "a" * 32


@dataclass(slots=True)
class Chain:
    """Adds backups to a directory, each with the rows after the one before."""

    directory: Path
    taken: list[Manifest] = field(default_factory=list)
    stored_protocol: int = 1

    def add(
        self,
        rows: Sequence[Row],
        *,
        kept: Mapping[int, tuple[int, int]] | None = None,
        branches: Sequence[Branch] = (),
        ends: Mapping[int, int] | None = None,
    ) -> Manifest:
        """Write a backup. kept: slot -> (kept, floor). ends: where the cut is not the last row."""
        before = self.taken[-1] if self.taken else None
        last = list(before.ends) if before else [0] * SLOTS
        for row in rows:
            last[row.slot] = row.n
        for slot, end in (ends or {}).items():
            last[slot] = end
        plan = Manifest(
            id=f"{len(self.taken) + 1:032}", number=len(self.taken) + 1,
            previous=before.id if before else "", group=GROUP, slots=SLOTS, cut="~token",
            ends=tuple(last), epoch=max((row.epoch for row in rows), default=0), as_of="latest",
            stored_protocol=self.stored_protocol, began_us=0, docstore="0",
        )  # fmt: skip
        path = unfinished(self.directory, plan.number)
        make(path)
        durable_files.replace(path / "plan.json", plan.pack())
        parts = [self._part(path, first, rows, kept or {}, branches)
                 for first in range(0, SLOTS, SLOTS_A_PART)]  # fmt: skip
        taken = plan.with_parts(parts)
        finish(self.directory, taken)
        self.taken.append(taken)
        return taken

    def _part(
        self,
        path: Path,
        first: int,
        rows: Sequence[Row],
        kept: Mapping[int, tuple[int, int]],
        branches: Sequence[Branch],
    ) -> BackupFile:
        slots = range(first, first + SLOTS_A_PART)
        name = part_name(first, slots[-1])
        stretches = [
            stretch(slot, *kept.get(slot, (0, -1)), [row for row in rows if row.slot == slot])
            for slot in slots
        ]
        inside = [branch for branch in branches if branch.row.slot in slots]
        blocks = [Block(log=stretches)] + ([Block(branches=inside)] if inside else [])
        with PartWriter(path / name) as writer:
            for block in blocks:
                writer.add(pack_block(block))
            writer.finish()
        count = sum(block.rows for block in blocks)
        return BackupFile(name, first, SLOTS_A_PART, count, writer.length, writer.sha256)


def stretch(slot: int, kept: int, floor: int, rows: Sequence[Row]) -> LogChunk:
    """Return the rows of a slot as one chunk of its log."""
    return LogChunk(slot, kept, floor, sum(row.n <= kept for row in rows), rows)
