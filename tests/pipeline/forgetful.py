"""A group whose nodes delete old versions sooner than a release allows."""

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from docstore.client.local import LocalCluster
from tests.chaos.arena import Arena
from tests.docstore.watching import metrics


class Forgetful(LocalCluster):
    """The nodes of an arena, as the tests of the pipeline know a group."""

    def __init__(self, arena: Arena) -> None:
        self.nodes = arena.members

    def until_trimmed(self, rows: int) -> None:
        """Return when every node has trimmed the history of `rows` rows."""
        deadline = time.monotonic() + 60
        while not all(self._trimmed(node) >= rows for node in self.nodes):
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def _trimmed(self, node: object) -> float:
        return metrics(node).get("docstore_protocol_trimmed_total", 0.0)  # type: ignore[arg-type]


@contextmanager
def forgetful(scratch: Path, retention_s: float = 1.0) -> Iterator[Forgetful]:
    """Run three such nodes, in a loop of their own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    (scratch / "arena").mkdir()
    arena = Arena(scratch / "arena", 3, 0, random.Random(1))
    arena.retention_s = retention_s
    try:
        asyncio.run_coroutine_threadsafe(arena.start(), loop).result(60)
        yield Forgetful(arena)
    finally:
        asyncio.run_coroutine_threadsafe(arena.stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
