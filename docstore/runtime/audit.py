"""The audit log: administrative changes and refused requests, as JSON lines that are only appended.

It is apart from the node's log, so that it can be kept for longer and read by fewer people. It has
no contents of documents, tokens or keys.
"""

import contextlib
import json
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from docstore.errors import BadConfig

STANDARD_OUTPUT = "-"
REFUSALS_A_SECOND = 20
"""Refused requests in the audit log per second at most: a flood of them must not fill the disk."""

log = structlog.get_logger("docstore.audit")


class PerSecond:
    """Lets a number of lines pass in each second, and counts the others."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._second = self._passed = self._left_out = 0

    def passes(self) -> bool:
        """Say whether one more line may be written now."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._passed = second, 0
        self._passed += 1
        if self._passed <= self._most:
            return True
        self._left_out += 1
        return False

    def left_out(self) -> dict[str, int]:
        """Return the number of lines left out since the last call, for the next line."""
        count, self._left_out = self._left_out, 0
        return {"left_out": count} if count else {}


class AuditLog:
    """Appends lines to a file, or to standard output.

    Each line is one write, so several processes may append to one file. The file is opened again
    when another one has its name, as after `logrotate`.
    """

    def __init__(self) -> None:
        self.is_on = False
        """Whether there is an audit log; requests read this first."""
        self.lines_lost = 0
        self._path: Path | None = None
        self._file = -1
        self._node = ""
        self._refusals = PerSecond(REFUSALS_A_SECOND)

    def use(self, target: str, node: str) -> None:
        """Write to a file or to standard output from now on, "" for none. Raises BadConfig.

        node: the id that each line names.
        """
        self.is_on, self._node = bool(target), node
        self._path = Path(target) if target not in ("", STANDARD_OUTPUT) else None
        try:
            self._reopen()
        except OSError as error:
            raise BadConfig(f"audit_file: {target}: {error.strerror}") from None

    def note(self, event: str, **values: object) -> None:
        """Append a line. A line that cannot be written is counted and logged."""
        if not self.is_on:
            return
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        line: dict[str, Any] = {"event": event, "logger": "docstore.audit", "timestamp": now}
        if self._node:
            line["node"] = self._node
        line |= {name: value for name, value in values.items() if value not in ("", None)}
        try:
            self._write(f"{json.dumps(line, default=str)}\n".encode("ascii"))
        except OSError:
            self.lines_lost += 1
            log.exception("a line of the audit log is lost", line=line)

    def note_refusal(self, event: str, **values: object) -> None:
        """Append a line about a refused request, unless there are too many of them."""
        if self.is_on and self._refusals.passes():
            self.note(event, **values, **self._refusals.left_out())

    def _write(self, line: bytes) -> None:
        if self._path is None:
            sys.stdout.write(line.decode())
            sys.stdout.flush()
            return
        if not self._is_current():
            self._reopen()
        if os.write(self._file, line) < len(line):
            raise OSError("the disk is full")

    def _is_current(self) -> bool:
        assert self._path is not None
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._file))
        except FileNotFoundError:
            return False

    def _reopen(self) -> None:
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.close(self._file)
        self._file = -1
        if self._path is not None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


AUDIT = AuditLog()
"""The audit log of this process."""
