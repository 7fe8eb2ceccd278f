"""The addresses of known members, on disk, as seeds after a restart. A shell.

A file of JSON lines, one for each change, appended at most twice a second and synced; once it has
twice the needed lines, a new file is written and renamed over it. A torn or invalid line is
skipped, since addresses are only hints.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from gossip.member import Address, Member, State
from gossip.messages import is_ip_literal, is_name

FLUSH_INTERVAL_S = 0.5
ADDRESSES_MAX = 64
"""Seeds taken from the file: the latest ones. Any one of them leads to all others."""

_log = logging.getLogger("gossip")


class Snapshot:
    """Keeps the file in step with the table."""

    def __init__(self, path: Path, *, keep_after_leave: bool = False) -> None:
        """Prepare; nothing is read before `load`, nothing written before `note`."""
        self._path = path
        self._keep_after_leave = keep_after_leave
        self._members: dict[str, Address] = {}
        self._fresh: list[str] = []
        self._lines = 0
        self._flushing: asyncio.Task[None] | None = None

    def load(self) -> Sequence[Address]:
        """Return the addresses that the file names, the latest first; none without a file."""
        try:
            lines = self._path.read_text("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return ()
        self._lines = len(lines)
        for line in lines:
            self._read(line)
        return list(dict.fromkeys(reversed(self._members.values())))[:ADDRESSES_MAX]

    def note(self, member: Member) -> None:
        """Remember where a member was last seen, dead or alive; one that left is dropped."""
        gone = member.state is State.LEFT
        known = self._members.pop(member.name, None)
        if not gone:
            self._members[member.name] = member.address
        if known == (None if gone else member.address):
            return
        self._fresh.append(_line(member.name, None if gone else member.address))
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush_later())

    async def close(self, *, has_left: bool) -> None:
        """Write the pending changes, or remove the file if this member has left."""
        if self._flushing is not None:
            self._flushing.cancel()
            await asyncio.gather(self._flushing, return_exceptions=True)
        if has_left and not self._keep_after_leave:
            self._path.unlink(missing_ok=True)
        elif self._fresh:
            await asyncio.to_thread(self._flush)

    async def _flush_later(self) -> None:
        await asyncio.sleep(FLUSH_INTERVAL_S)
        await asyncio.to_thread(self._flush)
        self._flushing = None

    def _flush(self) -> None:
        """Write the pending changes in a thread.

        On a full disk only the file suffers, not the agent.
        """
        fresh, self._fresh = self._fresh, []
        self._lines += len(fresh)
        try:
            if self._lines > 2 * max(16, len(self._members)):
                self._write_anew()
            else:
                with self._path.open("a") as file:
                    _synced(file, fresh)
        except OSError as error:
            values = {"path": str(self._path), "error": str(error)}
            _log.warning("the snapshot is not up to date", extra=values)

    def _write_anew(self) -> None:
        lines = [_line(name, address) for name, address in list(self._members.items())]
        beside = self._path.with_name(self._path.name + ".new")
        with beside.open("w") as file:
            _synced(file, lines)
        beside.replace(self._path)
        self._lines = len(lines)

    def _read(self, line: str) -> None:
        try:
            name, host, port = json.loads(line)
        except (ValueError, TypeError):
            return
        if not isinstance(name, str) or not is_name(name):
            return
        self._members.pop(name, None)
        if isinstance(host, str) and is_ip_literal(host) and isinstance(port, int):
            self._members[name] = (host, port)


def _line(name: str, address: Address | None) -> str:
    return json.dumps([name, *(address or (None, None))]) + "\n"


def _synced(file: TextIO, lines: Sequence[str]) -> None:
    file.writelines(lines)
    file.flush()
    os.fsync(file.fileno())
