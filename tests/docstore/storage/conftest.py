"""Disks to test on: each can be opened, closed and opened again, as by processes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from docstore.storage.store import Recovered, Store
from tests.docstore.storage.small import small
from tests.memory.memory import MemoryStore


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
