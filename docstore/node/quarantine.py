"""Quarantine of a damaged disk: a restart would only find the damage again, later.

A row that fails its checksum is repaired while the node runs. If the file itself is damaged or an
older copy, other data may be missing too. Then the node ends and leaves a note, which the next
start reads. An operator empties the directory, the note included, and replaces the member.
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
    """Log the failure of the disk and exit at once; nothing more may be answered (rule P3)."""
    log.critical("the disk failed; this process ends", error=str(error))
    if isinstance(error, StoreDamaged):
        with contextlib.suppress(OSError):  # The disk may refuse the note as well.
            (data / NOTE).write_text(f"{error}\n", "utf-8", "replace")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_DISK_FAILED)


def tell_lost_records(path: Path, boots: int, found: StreamsRecovered) -> None:
    """Log that the file of streams is new or older than this node, which starts all the same.

    boots: number of times that the file of documents was opened. Other replicas have the records,
    unless a topic has only one replica.
    """
    if found.is_old or (found.boot == 1 and boots > 1):
        log.warning(
            "the file of streams, or its start counter, is missing or older than this node",
            path=str(path), partitions="copied again from other replicas, if there are any",
        )  # fmt: skip


def refuse_damaged(data: Path) -> None:
    path = data / NOTE
    if path.exists():
        why = path.read_text("utf-8", "replace").strip()
        raise StoreDamaged(
            f"{data}: found damaged before ({why}); empty it and replace this member"
        )
