"""Disks of nodes that are down lose a bit of their journal, or get one half of an older copy back.

The next start must find all data, or end with 74. Which of the two is known before: a start on the
disk before the damage, and one after it, are run aside, and their tables are compared. A node that
ends with 74 is gone for good, and the others, a majority of every slot, lose nothing.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any, cast

from docstore.errors import StoreDamaged
from docstore.storage import journal_line
from docstore.storage.journal import HEADER_BYTES, Header, headers_in
from tests.disk.connection import Connection
from tests.disk.disk import Disk
from tests.disk.journalled import Journalled, found_on
from tests.disk.vfs import Vfs
from tests.whole.faults import KINDS, Nemesis
from tests.whole.run import Host, Run
from tests.whole.store import SIZES

JOURNAL = "journal/"


class Spoiler(Nemesis):
    """Strikes at disks as well."""

    kinds = (*KINDS, "rot", "rot", "old", "old", "old")

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._copies: dict[str, Disk] = {}
        """Host -> its disk as it was some time ago, when nothing ran on it."""

    def _rot(self, host: Host, lasts_s: float) -> None:
        """Flip a bit of an entry that another one follows: rot of the last is a torn one."""
        if not self._run.may_lose(host):
            return
        host.end()
        disk = host.disk.killed()
        entries = sorted(_entries(disk))
        if len(entries) > 1:
            header, name, offset = self._run.rng.choice(entries[:-1])
            at = offset + self._run.rng.randrange(HEADER_BYTES + header.length)
            for content in (disk.files[name].now, disk.files[name].durable):
                content[at] ^= 1 << self._run.rng.randrange(8)
            self._run.spoil(host, disk)
        self._run.loop.call_later(lasts_s, self._run.again, host)

    def _old(self, host: Host, lasts_s: float) -> None:
        """Put the journal or the tables back from a copy; take one where there is none yet."""
        if not self._run.may_lose(host):
            return
        host.end()
        copy = self._copies.pop(host.name, None)
        if copy is None:
            self._copies[host.name] = host.disk.killed()
        else:
            is_journal = self._run.rng.random() < 0.5
            self._run.spoil(host, _put_together(host.disk, copy, is_journal=is_journal))
        self._run.loop.call_later(lasts_s, self._run.again, host)


class Spoiling(Run):
    """The usual clients, and disks that are damaged."""

    nemesis = Spoiler

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self._spoiled: dict[str, bool] = {}
        """Host -> whether its next start must end with 74."""

    def may_lose(self, host: Host) -> bool:
        """Return whether a host can be lost, and every slot keeps a majority."""
        others = [each for each in self.hosts if each.is_lost or each.name in self._spoiled]
        most = 2 if self.size == 5 and self.factor is None else 1
        return host not in others and len(others) < most

    def spoil(self, host: Host, disk: Disk) -> None:
        """Put another disk into a host that is down."""
        before, after = _content(host.disk), _content(disk)
        if before is None:
            self.outcome.problems.append(f"{host.name}: damaged before anything was done to it")
        if after not in (before, None):
            self.outcome.problems.append(f"{host.name}: neither whole nor refused")
        host.disk = disk
        self._spoiled[host.name] = after is None
        self.outcome.counters["damaged" if after is None else "whole"] += 1

    def started(self, host: Host) -> None:
        """Check that the disk was whole."""
        if self._spoiled.pop(host.name, False):
            self.outcome.problems.append(f"{host.name}: a damaged disk is treated as whole")

    def damaged(self, host: Host, error: StoreDamaged) -> None:
        """Check that the disk was damaged; no node is started on it any more."""
        if not self._spoiled.pop(host.name, False):
            super().damaged(host, error)
        host.is_lost = True


class _Opened(Journalled):
    sizes = SIZES


def _content(disk: Disk) -> int | None:
    """Return the content that a start finds, None if it ends. The disk is not changed."""
    try:
        return found_on(disk.killed(), _Opened)
    except StoreDamaged:
        return None


def _entries(disk: Disk) -> Iterator[tuple[Header, str, int]]:
    """Yield the entries of a journal, each with its place."""
    vfs = Vfs(disk.killed())
    try:
        connection = Connection(vfs)
        key = journal_line.read(cast("sqlite3.Connection", connection)).key
        connection.close()
    finally:
        vfs.unregister()
    for name, file in disk.files.items():
        if name.startswith(JOURNAL):
            yield from ((each, name, at) for at, each in headers_in(key, bytes(file.now)))


def _put_together(disk: Disk, copy: Disk, *, is_journal: bool) -> Disk:
    """Return a disk whose journal, or whose tables, are those of a copy."""
    files = {
        name: file.now
        for part, of in ((copy, is_journal), (disk, not is_journal))
        for name, file in part.files.items()
        if name.startswith(JOURNAL) == of
    }
    return Disk(files)
