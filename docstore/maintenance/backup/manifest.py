"""What a backup says of itself: of which group and up to where, in which files, after which one.

It is written last, so that a backup with a manifest is whole, and vouches for itself by a sum.
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
    """A file: some slots' rows. length: in bytes. sha256: in hex."""

    name: str
    first_slot: int
    slots: int
    rows: int
    length: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One backup of a chain. Before its parts are known it is the plan of one."""

    id: str
    number: int
    """Its place in the chain, from 1 on."""
    previous: str = ""
    """The id of the one before, which has the rows that this one goes on from."""
    group: str
    """The id of the group that it is of."""
    slots: int
    cut: str
    """The token that nodes understand; `ends` says the same."""
    ends: tuple[int, ...]
    """By slot: rows up to this one are in the chain."""
    epoch: int
    """No row was written under a greater one."""
    as_of: str
    began_us: int
    stored_protocol: int
    """What protocols up to this one have added to rows, there may be: see rule M7."""
    docstore: str
    """Which version took it."""
    parts: tuple[BackupFile, ...] = ()
    format: int = FORMAT

    @property
    def rows(self) -> int:
        """Return how many rows its files have."""
        return sum(part.rows for part in self.parts)

    @property
    def length(self) -> int:
        """Return how many bytes its files have."""
        return sum(part.length for part in self.parts)

    def with_parts(self, parts: Sequence[BackupFile]) -> "Manifest":
        """Return the manifest of a backup of which this was the plan."""
        return replace(self, parts=tuple(sorted(parts, key=lambda part: part.first_slot)))

    def pack(self) -> bytes:
        """Return it as a file holds it."""
        said = asdict(self)
        return orjson.dumps({**said, "sha256": _sum(said)}, option=orjson.OPT_INDENT_2) + b"\n"


def unpack_manifest(packed: bytes, name: str) -> Manifest:
    """Return the manifest of a file. name: of the file, for errors. Raises BadBackup."""
    try:
        said: dict[str, Any] = orjson.loads(packed)
        if said["format"] != FORMAT:
            raise BadBackup(f"{name} has format {said['format']}; this version reads {FORMAT}")
        del said["sha256"]
        said["ends"] = tuple(said["ends"])
        said["parts"] = tuple(BackupFile(**part) for part in said["parts"])
        found = Manifest(**said)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        raise BadBackup(f"{name} is no manifest of a backup") from None
    if found.pack() != packed:
        raise BadBackup(f"{name} is not what was written")
    return found


def insist_on_chain(manifests: Sequence[Manifest]) -> None:
    """Raise BadBackup unless these go on from each other, from the first one on."""
    before: Manifest | None = None
    for number, each in enumerate(manifests, 1):
        name = f"backup {each.number}"
        if each.number != number:
            raise BadBackup(f"{name} stands where number {number} should: one is missing")
        if each.previous != (before.id if before else ""):
            raise BadBackup(f"{name} does not go on from the one before it")
        if before and (each.group, each.slots) != (before.group, before.slots):
            raise BadBackup(f"{name} is of another group than the one before it")
        if before and any(now < then for now, then in zip(each.ends, before.ends, strict=True)):
            raise BadBackup(f"{name} ends before the one before it")
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
