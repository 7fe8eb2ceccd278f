"""The manifest of a backup: its group, cut, files, and predecessor.

It is written last, so a backup with a manifest is complete. It has a checksum of its own.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import orjson

from docstore.reads.blocks import BadBackup

FORMAT = 1


@dataclass(frozen=True, slots=True)
class BackupFile:
    """File with the rows of some slots. length: in bytes. sha256: in hex."""

    name: str
    first_slot: int
    slots: int
    rows: int
    length: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Manifest of one backup of a chain; without parts it is the plan of a backup."""

    id: str
    number: int
    """Place in the chain, from 1 on."""
    previous: str = ""
    """Id of the previous backup; "" for the first backup."""
    group: str
    """Id of the group."""
    slots: int
    cut: str
    """Token of the cut, whose positions are `ends`."""
    ends: tuple[int, ...]
    """Number of the last row of each slot in the chain."""
    epoch: int
    """Greatest epoch among the rows."""
    as_of: str
    began_us: int
    stored_protocol: int
    """Greatest protocol whose additions the rows may contain (rule M7)."""
    docstore: str
    """Version of docstore that took the backup."""
    parts: tuple[BackupFile, ...] = ()
    format: int = FORMAT

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def length(self) -> int:
        return sum(part.length for part in self.parts)

    def with_parts(self, parts: Sequence[BackupFile]) -> "Manifest":
        return replace(self, parts=tuple(sorted(parts, key=lambda part: part.first_slot)))

    def pack(self) -> bytes:
        said = asdict(self)
        return orjson.dumps({**said, "sha256": _sum(said)}, option=orjson.OPT_INDENT_2) + b"\n"


def unpack_manifest(packed: bytes, name: str) -> Manifest:
    """Parse a manifest. name: of its file, for errors. Raises BadBackup."""
    try:
        said: dict[str, Any] = orjson.loads(packed)
        if said["format"] != FORMAT:
            raise BadBackup(f"{name} has format {said['format']}; this version reads {FORMAT}")
        del said["sha256"]
        said["ends"] = tuple(said["ends"])
        said["parts"] = tuple(BackupFile(**part) for part in said["parts"])
        found = Manifest(**said)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        raise BadBackup(f"{name} is not a manifest of a backup") from None
    if found.pack() != packed:
        raise BadBackup(f"{name} is damaged: its checksum is wrong")
    return found


def insist_on_chain(manifests: Sequence[Manifest]) -> None:
    """Raise BadBackup unless each backup continues the one before it, from the first on."""
    before: Manifest | None = None
    for number, each in enumerate(manifests, 1):
        name = f"backup {each.number}"
        if each.number != number:
            raise BadBackup(f"{name} is where number {number} should be: one is missing")
        if each.previous != (before.id if before else ""):
            raise BadBackup(f"{name} does not continue the backup of the manifest before it")
        if before and (each.group, each.slots) != (before.group, before.slots):
            raise BadBackup(f"{name} is a backup of another group than the manifest before it")
        if before and any(now < then for now, then in zip(each.ends, before.ends, strict=True)):
            raise BadBackup(f"{name} ends before the manifest before it ends")
        _insist_on_slots(each, name)
        before = each


def _insist_on_slots(manifest: Manifest, name: str) -> None:
    slot = 0
    for part in manifest.parts:
        if part.first_slot != slot:
            raise BadBackup(f"{name}: no file has slot {slot}")
        slot += part.slots
    if slot != manifest.slots or len(manifest.ends) != slot:
        raise BadBackup(f"{name} has files for {slot} of {manifest.slots} slots")


def _sum(said: dict[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()
