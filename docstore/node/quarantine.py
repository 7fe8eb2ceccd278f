"""A disk that was found damaged stays out of use: a restart would only find out again, later.

A row that fails its checksum is repaired while the node runs. When the file itself is damaged, or
is an older copy, nobody knows what else is missing, so the node ends and leaves a note for the
next start. Whoever empties the directory and has the member replaced removes the note with it.
"""

import contextlib
import os
import sys
from pathlib import Path
from typing import NoReturn

import structlog

from docstore.errors import StoreDamaged
from docstore.storage.partitions import StreamsRecovered

EXIT_DISK_FAILED = 74
NOTE = "damaged"

log = structlog.get_logger("docstore.node.quarantine")


def end_process(data: Path, error: BaseException) -> NoReturn:
    """The disk failed: say so and end at once; nothing more may be answered (rule P3)."""
    log.critical("the disk failed; this process ends", error=str(error))
    if isinstance(error, StoreDamaged):
        with contextlib.suppress(OSError):  # The disk may refuse the note as well.
            (data / NOTE).write_text(f"{error}\n", "utf-8", "replace")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_DISK_FAILED)


def tell_lost_records(path: Path, boots: int, found: StreamsRecovered) -> None:
    """Say that the file of streams is new, or older than this node, which starts all the same.

    boots: how often the file of documents was opened. Other replicas have the records, unless a
    topic has one replica only.
    """
    if found.is_old or (found.boot == 1 and boots > 1):
        log.warning(
            "the file of streams, or the count beside it, is lost or older than this node",
            path=str(path), partitions="filled anew from other replicas, if they have any",
        )  # fmt: skip


def refuse_damaged(data: Path) -> None:
    """Raise StoreDamaged if the note is there."""
    path = data / NOTE
    if path.exists():
        why = path.read_text("utf-8", "replace").strip()
        raise StoreDamaged(
            f"{data}: found damaged before ({why}); empty it and replace this member"
        )
