"""The access file of a node, read at its start and whenever it has changed.

A file that is missing or unusable is logged and changes nothing. The same holds for a file without
any user, or without an administrator if the file before had one: `cp` empties a file before it
fills it. A changed file is read once two checks in a row found the same file.
"""

import asyncio
from pathlib import Path

import structlog

from docstore.access.authenticator import Authenticator
from docstore.access.rules import Rules, changes_of, refuse_lockout, rules_of
from docstore.errors import BadConfig
from docstore.runtime.audit import AUDIT
from docstore.runtime.secret_files import file_states

LOOK_S = 0.5
"""Seconds between two checks: a token removed from the file is rejected two checks later."""

log = structlog.get_logger("docstore.node.access")


class AccessFile:
    """Keeps an authenticator up to date with the file."""

    def __init__(self, path: Path) -> None:
        """Raises BadConfig."""
        self._path = path
        self._seen = self._before = file_states([path])
        self._rules = _read(path)
        self.authenticator = Authenticator(self._rules)

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Read the changed file again, once it did not change between two checks."""
        mark = file_states([self._path])
        is_written, self._before = mark == self._before, mark
        if mark == self._seen or not is_written:
            return
        self._seen = mark
        try:
            rules = _read(self._path)
            refuse_lockout(self._rules, rules)
        except BadConfig as error:
            self.authenticator.is_outdated = True
            log.warning("the access file is unusable, the last one stays in force", why=str(error))
            AUDIT.note("access file refused", file=self._path, why=str(error))
            return
        AUDIT.note("access file read", file=self._path, **changes_of(self._rules, rules))
        self._rules = rules
        self.authenticator.use(rules)
        log.info("the access file was read", users=len(rules.users), keys=len(rules.keys))


def _read(path: Path) -> Rules:
    try:
        return rules_of(path.read_text("utf-8"))
    except OSError as error:
        raise BadConfig(f"access_file: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadConfig(f"access_file: {path}: must be text in UTF-8") from None
    except BadConfig as error:
        raise BadConfig(f"access_file: {path}: {error}") from None
