"""Work in the background survives its errors, and ends when it is stopped."""

import asyncio

import pytest

from docstore.maintenance.upkeep import background
from docstore.maintenance.upkeep.background import Background


async def test_an_unexpected_error_does_not_end_background_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "AGAIN_S", 0.0)
    turns: list[int] = []
    enough = asyncio.Event()

    async def turn() -> None:
        turns.append(len(turns))
        if len(turns) == 1:
            raise ValueError("a bad row")
        enough.set()
        await asyncio.Event().wait()

    work = Background("test", turn)
    work.start()
    work.start()
    await asyncio.wait_for(enough.wait(), 5)
    await work.stop()
    assert turns == [0, 1]
    await Background("never begun", turn).stop()
