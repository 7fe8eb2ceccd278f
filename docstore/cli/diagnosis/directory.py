"""Findings on the data directory of a node that is stopped, from what was found in it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from docstore.cli.diagnosis.finding import RISK, WRONG, Finding, in_order
from docstore.model.words import count

DISK = "operations.md#changing-the-group"
START = "operations.md#running-nodes"
RESTORING = "backup.md#restoring"
ROOM_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a look at a directory, without changing anything, has found."""

    is_node: bool = True
    """Whether it has the files of a node at all, or of one that was restored and never started."""
    unrestored: str = ""
    """Why a restore into it is to be made again."""
    runs: bool = False
    """Whether a process holds the lock."""
    damage: str = ""
    """The note that a node left which ended over its disk."""
    was_killed: bool = False
    """Whether its tables have a log, or a journal beside them, that a stop in order takes in."""
    has_journal: bool = True
    formats: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """What a file holds -> its format, and the last one that this version reads."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Name of a file -> why it is not what it should be."""
    no_room_in: str = ""
    """The directory without room for a copy of a killed node's files, which were not read then."""
    faulty_slots: int = 0
    lacks_life: bool = False
    """Whether there are streams, but not the count of their starts."""
    has_ballast: bool = True
    free_bytes: int = 1 << 40
    start_bytes: int = 0
    """What a start takes that makes the ballast and the journal anew."""
    open_files: tuple[str, ...] = ()
    """Documents and streams that others on this machine may read."""


def examine(found: Found) -> list[Finding]:
    """Return what is wrong, then what will be."""
    if not found.is_node:
        return [
            Finding(WRONG, "", "this is no data directory: it lacks docstore.db, or node-id",
                    "name what `docstore serve --data` names", START)
        ]  # fmt: skip
    if found.unrestored:
        return [
            Finding(WRONG, "", found.unrestored, "`docstore restore` into it, once more", RESTORING)
        ]
    if found.runs:
        return [
            Finding(WRONG, "", "a node runs on it, so only the node can tell",
                    "ask it: `docstore doctor --url`; or stop it first", START)
        ]  # fmt: skip
    return in_order([*_of_damage(found), *_of_files(found), *_of_room(found)])


def _of_damage(found: Found) -> Iterator[Finding]:
    anew = "empty the directory and let the node replace itself (`docstore replace`)"
    if found.damage:
        what = f"the node ended since its disk is damaged: {found.damage}"
        yield Finding(WRONG, "", what, anew, DISK)
    for name, why in found.unreadable.items():
        yield Finding(WRONG, "", f"{name}: {why}", anew, DISK)
    for holds, (number, most) in found.formats.items():
        if number > most:
            yield Finding(
                WRONG, "", f"the file of {holds} has format {number}, and this version reads up to "
                f"{most}", "start the version that wrote it, or a later one",
                "operations.md#upgrading",
            )  # fmt: skip
    if found.was_killed and not found.has_journal:
        yield Finding(
            WRONG, "", "the node was not stopped in order, and its journal is gone: what was "
            "acknowledged last is lost here", anew, DISK,
        )  # fmt: skip
    if found.faulty_slots:
        yield Finding(
            WRONG, "", f"{count(found.faulty_slots, 'slot')} failed a checksum, or were not copied "
            "yet", "start it: they are copied anew from the others", DISK,
        )  # fmt: skip


def _of_files(found: Found) -> Iterator[Finding]:
    if found.was_killed and found.has_journal:
        yield Finding(
            RISK, "", "the node was not stopped in order: docstore.db, its log and its journal "
            "belong together, and none of them may be copied alone",
            "start it, and stop it in order (SIGTERM) before anything is copied", DISK,
        )  # fmt: skip
    if found.no_room_in:
        yield Finding(
            RISK, "", "the files were not read: a killed node's are read in a copy, for which there"
            f" is no room in {found.no_room_in}", "name a directory with room in TMPDIR", DISK,
        )  # fmt: skip
    if found.lacks_life:
        yield Finding(
            RISK, "", "streams.db.life is gone: the node takes streams.db for an older one, and "
            "fills its partitions from other replicas", "put both back together, or neither", DISK,
        )  # fmt: skip
    if found.open_files:
        yield Finding(
            RISK, "", f"others on this machine may read {' and '.join(found.open_files)}",
            "`chmod 700` of the directory, and a umask of 077 for the node", START,
        )  # fmt: skip


def _of_room(found: Found) -> Iterator[Finding]:
    free = f"the disk has {found.free_bytes >> 20:,} MiB left"
    if not found.has_ballast and found.free_bytes < found.start_bytes:
        yield Finding(
            WRONG, "", f"{free}, and a start takes {found.start_bytes >> 20:,}: the disk was full",
            "make room first", DISK,
        )  # fmt: skip
    elif found.free_bytes < ROOM_BYTES:
        yield Finding(RISK, "", free, "make room first", DISK)
