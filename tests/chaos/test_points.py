"""The points at which torture kills are passed by a store in plain use."""

from pathlib import Path

import pytest

from tests.chaos import points
from tests.docstore.storage.logs import Author
from tests.docstore.storage.small import small


async def test_each_point_is_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    points.install(seen.append, monkeypatch.setattr)
    store, author = small(tmp_path / "store.db"), Author()
    await store.open()
    for number in range(100):
        await author.append(store, 1, "/notes/a", state=b"x" * 5000)
        if number % 4 == 0:
            await store.recover()
    await store.close()
    assert set(seen) == set(points.POINTS)
    first = seen.index("follow:begun", seen.index("journal:written"))
    assert seen.index("lap") > first
