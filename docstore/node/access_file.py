"""The access file of a node: read at its start, and again whenever it has changed.

A file that is wrong, or gone, changes nothing and is told in the log: a slip of the pen must
neither let anybody in nor shut everybody out.
"""

import asyncio
from pathlib import Path

import structlog

from docstore.access.authenticator import Authenticator
from docstore.access.rules import Rules, rules_of
from docstore.errors import BadConfig

LOOK_S = 1.0
"""Between two looks at the file: a token that is taken out of it is refused so much later."""

log = structlog.get_logger("docstore.node.access")


class AccessFile:
    """Keeps an authenticator to what the file says."""

    def __init__(self, path: Path) -> None:
        """Raises BadConfig."""
        self._path = path
        self._seen = _mark(path)
        self.authenticator = Authenticator(_read(path))

    async def watch(self) -> None:
        """Look at the file until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Read the file again if it is another one than last time."""
        mark = _mark(self._path)
        if mark == self._seen:
            return
        self._seen = mark
        try:
            rules = _read(self._path)
        except BadConfig as error:
            log.warning("the access file is of no use, and what it said holds", why=str(error))
            return
        self.authenticator.use(rules)
        log.info("the access file has been read", users=len(rules.users), keys=len(rules.keys))


def _mark(path: Path) -> tuple[int, ...]:
    """Return what is another tuple once a file has been written, or replaced; () for no file."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path) -> Rules:
    try:
        return rules_of(path.read_text("utf-8"))
    except OSError as error:
        raise BadConfig(f"access_file: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadConfig(f"access_file: {path}: it is not UTF-8") from None
    except BadConfig as error:
        raise BadConfig(f"access_file: {path}: {error}") from None
