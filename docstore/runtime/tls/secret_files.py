"""Files with keys and tokens, which are for the eyes of the node's own user."""

import stat
from collections.abc import Iterable
from pathlib import Path

import structlog

SECRET_MODE = 0o077
"""What nobody but its owner should be allowed to do with such a file."""

log = structlog.get_logger("docstore.tls")


def warn_of_open(files: Iterable[Path]) -> None:
    """Log those that others may read: a slip that no error shows, and the node works with it.

    Only of plain files: a pipe or a device keeps no secret.
    """
    for each in files:
        if is_open_to_others(each):
            log.warning("others on this machine may read the secret", file=str(each))


def is_open_to_others(path: Path) -> bool:
    """Say whether somebody else on this machine may read, or write, a plain file."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False  # It has gone since it was read.
    return stat.S_ISREG(mode) and mode & SECRET_MODE != 0
