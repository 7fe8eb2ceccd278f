"""Findings on the data directory of a stopped node."""

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
    """State of a data directory, read without changing it."""

    is_node: bool = True
    """Whether the directory has the files of a node, or of a restored node that was never started.
    """
    unrestored: str = ""
    """Reason why a restore into the directory must be repeated."""
    runs: bool = False
    """Whether a process holds the directory's lock."""
    damage: str = ""
    """Note left by a node that ended because of its disk."""
    was_killed: bool = False
    """Whether a log or journal remains, which an orderly stop would have applied to the tables."""
    has_journal: bool = True
    formats: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Content of a file -> its format, and the newest format that this version reads."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Name of a damaged file -> its fault."""
    no_room_in: str = ""
    """Directory that lacks room for a copy of a killed node's files, which therefore were not read.
    """
    faulty_slots: int = 0
    lacks_life: bool = False
    """streams.db exists, but its start counter (streams.db.life) does not."""
    has_ballast: bool = True
    free_bytes: int = 1 << 40
    start_bytes: int = 0
    """Bytes that a start needs to create the ballast and the journal."""
    open_files: tuple[str, ...] = ()
    """Databases that other users of this machine may read."""


def examine(found: Found) -> list[Finding]:
    if not found.is_node:
        return [
            Finding(WRONG, "", "this is no data directory: docstore.db or node-id is missing",
                    "give the directory that `docstore serve --data` uses", START)
        ]  # fmt: skip
    if found.unrestored:
        return [
            Finding(WRONG, "", found.unrestored, "run `docstore restore` into it again", RESTORING)
        ]
    if found.runs:
        return [
            Finding(WRONG, "", "a running node uses this directory, so it cannot be examined",
                    "ask the node with `docstore doctor --url`, or stop it first", START)
        ]  # fmt: skip
    return in_order([*_of_damage(found), *_of_files(found), *_of_room(found)])


def _of_damage(found: Found) -> Iterator[Finding]:
    anew = "empty the directory and let the node replace itself (`docstore replace`)"
    if found.damage:
        what = f"the node stopped because its disk is damaged: {found.damage}"
        yield Finding(WRONG, "", what, anew, DISK)
    for name, why in found.unreadable.items():
        yield Finding(WRONG, "", f"{name}: {why}", anew, DISK)
    for holds, (number, most) in found.formats.items():
        if number > most:
            yield Finding(
                WRONG, "", f"the file of {holds} has format {number}; this version reads up to "
                f"{most}", "start the version that wrote it, or a later one",
                "operations.md#upgrading",
            )  # fmt: skip
    if found.was_killed and not found.has_journal:
        yield Finding(
            WRONG, "", "the node was killed and its journal is gone: its last acknowledged writes "
            "are lost on this disk", anew, DISK,
        )  # fmt: skip
    if found.faulty_slots:
        yield Finding(
            WRONG, "", f"{count(found.faulty_slots, 'slot')} failed a checksum, or are not copied "
            "completely", "start the node: it copies them from the other members", DISK,
        )  # fmt: skip


def _of_files(found: Found) -> Iterator[Finding]:
    if found.was_killed and found.has_journal:
        yield Finding(
            RISK, "", "the node was killed: docstore.db is incomplete without its log and its "
            "journal, so none of them may be copied alone",
            "start the node and stop it with SIGTERM before you copy files", DISK,
        )  # fmt: skip
    if found.no_room_in:
        yield Finding(
            RISK, "", "the files of the killed node were not read, because a copy of them does not "
            f"fit in {found.no_room_in}", "set TMPDIR to a directory with enough space", DISK,
        )  # fmt: skip
    if found.lacks_life:
        yield Finding(
            RISK, "", "streams.db.life is gone: the node will distrust streams.db, and copy "
            "its partitions from other replicas", "restore both files together, or neither", DISK,
        )  # fmt: skip
    if found.open_files:
        yield Finding(
            RISK, "", f"other users of this machine may read {' and '.join(found.open_files)}",
            "`chmod 700` the directory, and run the node with umask 077", START,
        )  # fmt: skip


def _of_room(found: Found) -> Iterator[Finding]:
    free = f"the disk has {found.free_bytes >> 20:,} MiB left"
    if not found.has_ballast and found.free_bytes < found.start_bytes:
        yield Finding(
            WRONG, "", f"{free}, and a start needs {found.start_bytes >> 20:,} MiB",
            "free disk space before you start the node", DISK,
        )  # fmt: skip
    elif found.free_bytes < ROOM_BYTES:
        yield Finding(RISK, "", free, "free disk space before you start the node", DISK)
