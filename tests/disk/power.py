"""Cuts of power at random calls of a script, and the content of the file afterwards."""

import sqlite3
from dataclasses import dataclass, field
from random import Random
from types import ModuleType

from docstore.errors import StoreError
from tests.disk import script as documents
from tests.disk.connection import Connection
from tests.disk.disk import Disk
from tests.disk.vfs import Vfs


@dataclass(slots=True)
class Outcome:
    """Images that were checked, and their problems."""

    images: int = 0
    lost: list[str] = field(default_factory=list)
    """Acknowledged batches that are missing."""
    odd: list[str] = field(default_factory=list)
    """Contents that were never written, and files that cannot be opened."""


def cut_at_random(
    seed: int, images: int, *, synchronous: str = "FULL", what: ModuleType = documents
) -> Outcome:
    """Play one script of the kind `what`, and cut the power about `images` times on the way."""
    rng = Random(seed)
    script = what.batches(rng, 40)
    outcome = Outcome()
    judge = _Judge(what, what.expected(script), outcome)
    disk = Disk()
    vfs = Vfs(disk)
    acknowledged = -1
    # About two hundred calls write or sync in a script of forty batches.
    share = images / 200

    def look(call: str) -> None:
        if call == "read" or rng.random() >= share:
            return
        for _ in range(max(1, round(share))):
            judge.look(disk.cut(rng), acknowledged, f"seed {seed}, {call}")

    connection = Connection(vfs, synchronous=synchronous)
    writer = what.prepared(connection)
    acknowledged = 0
    disk.before = look
    for number, batch in enumerate(script, 1):
        writer.commit(batch)
        acknowledged = number
        if rng.random() < 0.1:
            writer.copy_back("PASSIVE")
    disk.before = lambda call: None
    connection.close()
    vfs.unregister()
    return outcome


@dataclass(slots=True)
class _Judge:
    what: ModuleType
    stages: list[int]
    outcome: Outcome

    def look(self, image: Disk, acknowledged: int, where: str) -> None:
        """Open an image as a restart does, and compare its content with the allowed ones."""
        self.outcome.images += 1
        try:
            found = self._reopened(image, as_a_start=self.outcome.images % 10 == 0)
        except StoreError as error:
            self.outcome.odd.append(f"{where}: {error}")
            return
        except sqlite3.OperationalError as error:
            # The file has lost even the commit that made its tables.
            self.outcome.lost.append(f"{where}: {error}, after {acknowledged}")
            return
        if found in self.stages[acknowledged : acknowledged + 2]:
            return
        if found in self.stages[:acknowledged]:
            self.outcome.lost.append(f"{where}: at {self.stages.index(found)} of {acknowledged}")
        else:
            self.outcome.odd.append(f"{where}: a content that never was")

    def _reopened(self, image: Disk, *, as_a_start: bool) -> int:
        """Open an image, and return its content; `as_a_start` costs more than all the rest."""
        vfs = Vfs(image)
        try:
            connection = Connection(vfs)
            try:
                if as_a_start:
                    self.what.prepared(connection)
                return int(self.what.content(connection))
            finally:
                connection.close()
        finally:
            vfs.unregister()
