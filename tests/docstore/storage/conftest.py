"""Disks to test on: each can be opened, closed and opened again, as a process would."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from docstore.storage.memory import MemoryStore
from docstore.storage.store import Recovered, Store
from tests.docstore.storage.small import small


class Disk:
    """A place for a store, and the store that is open on it."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.store: Store = MemoryStore() if path is None else small(path)

    async def restart(self) -> Recovered:
        """Close the store and open the next one on the same disk."""
        await self.store.close()
        if self._path is not None:
            self.store = small(self._path)
        return await self.store.open()


@pytest.fixture(params=["sqlite", "memory"])
async def disk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Disk]:
    disk = Disk(tmp_path / "store.db" if request.param == "sqlite" else None)
    await disk.store.open()
    yield disk
    await disk.store.close()


@pytest.fixture
def store(disk: Disk) -> Store:
    return disk.store


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four MiB."""
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None or os.geteuid() != 0:
        pytest.skip("only root can mount a disk")
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("cannot mount a disk here")
    yield folder
    subprocess.run([umount, str(folder)], check=True)
