"""Reads without room are retried for a while."""

from collections.abc import Awaitable, Callable

import pytest

from docstore.errors import DiskFull, StoreBroken
from docstore.storage.retry_while_full import PAUSE_S, WITHOUT_ROOM_S, retry_while_full
from tests.whole.loop import VirtualLoop


def _read_until(room_s: float) -> tuple[str, float]:
    """Read on a disk that has room after `room_s`; return the result and its time."""
    loop = VirtualLoop()

    async def read() -> str:
        if loop.time() < room_s:
            raise DiskFull("no room")
        return "read"

    async def main(read: Callable[[], Awaitable[str]]) -> tuple[str, float]:
        return await retry_while_full(read), loop.time()

    try:
        return loop.run_until_complete(main(read))
    finally:
        loop.close()


def test_a_read_that_finds_room_in_time_succeeds() -> None:
    assert _read_until(0.0) == ("read", 0.0)
    found, at = _read_until(WITHOUT_ROOM_S - 2 * PAUSE_S)
    assert (found, at) == ("read", pytest.approx(WITHOUT_ROOM_S - 2 * PAUSE_S, abs=2 * PAUSE_S))


def test_a_read_without_room_for_long_fails() -> None:
    with pytest.raises(StoreBroken, match="no room to read what is there, for 5 s: no room"):
        _read_until(1e9)
