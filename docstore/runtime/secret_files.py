"""Files that a node reads again when they change, and that other users should not read."""

import stat
from collections.abc import Iterable
from pathlib import Path

import structlog

log = structlog.get_logger("docstore.tls")

SECRET_MODE = 0o077
"""Permission bits of other users, none of which a secret file should have."""


def warn_of_open(files: Iterable[Path]) -> None:
    """Log secret files that other users may read; the node itself would work with them."""
    for each in files:
        if is_open_to_others(each):
            log.warning("other users of this computer may read the secret", file=str(each))


def is_open_to_others(path: Path) -> bool:
    """Say whether other users may read or write a plain file; pipes and devices keep no secret."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False  # The file was removed after it was read.
    return stat.S_ISREG(mode) and mode & SECRET_MODE != 0


def file_states(paths: Iterable[Path]) -> list[tuple[int, ...]]:
    """Return a value that differs once one of these files was written, replaced or removed."""
    states: list[tuple[int, ...]] = []
    for path in paths:
        try:
            found = path.stat()
        except OSError:
            states.append(())
        else:
            states.append((found.st_ino, found.st_mtime_ns, found.st_size))
    return states
