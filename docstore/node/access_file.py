"""The access file of a node: read at its start, and again whenever it has changed.

A file that is wrong, or gone, changes nothing and is logged. So does one without any user, or
without an administrator though there was one: `cp` empties a file before it fills it. A file that
changes is read once it has been the same for two looks.
"""

import asyncio
from pathlib import Path

import structlog

from docstore.access.authenticator import Authenticator
from docstore.access.rules import Rules, refuse_lockout, rules_of
from docstore.errors import BadConfig

LOOK_S = 0.5
"""Between two looks at the file: a token that is taken out of it is refused two looks later."""

log = structlog.get_logger("docstore.node.access")


class AccessFile:
    """Keeps an authenticator to what the file says."""

    def __init__(self, path: Path) -> None:
        """Raises BadConfig."""
        self._path = path
        self._seen = self._before = _mark(path)
        self._rules = _read(path)
        self.authenticator = Authenticator(self._rules)

    async def watch(self) -> None:
        """Look at the file until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Read the file again if it is another one, and has not changed since the last look."""
        mark = _mark(self._path)
        is_written, self._before = mark == self._before, mark
        if mark == self._seen or not is_written:
            return
        self._seen = mark
        try:
            rules = _read(self._path)
            refuse_lockout(self._rules, rules)
        except BadConfig as error:
            self.authenticator.is_outdated = True
            log.warning("the access file is of no use, and what it said holds", why=str(error))
            return
        self._rules = rules
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
