"""The usage that a process reports, compared with the machine's figures."""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from docstore.node.measures import process_metrics
from tests.docstore.watching import resident_bytes

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs proc(5)")


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    comm = Path("/proc/self/comm")
    before = comm.read_text()
    comm.write_text(name)
    try:
        yield
    finally:
        comm.write_text(before)


async def test_files_threads_and_tasks_are_counted_as_they_come_and_go(tmp_path: Path) -> None:
    before = process_metrics()
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    task = asyncio.create_task(asyncio.Event().wait())
    with (tmp_path / "one").open("w"), (tmp_path / "two").open("w"):
        during = process_metrics()
    over.set()
    thread.join()
    task.cancel()
    assert during["process_open_fds"] == before["process_open_fds"] + 2
    assert during["process_threads"] == before["process_threads"] + 1
    assert during["docstore_tasks"] == before["docstore_tasks"] + 1
    assert process_metrics()["process_open_fds"] == before["process_open_fds"]


async def test_memory_processor_and_start_are_those_of_the_machine() -> None:
    seen = process_metrics()
    resident = resident_bytes(os.getpid())
    assert seen["process_resident_memory_bytes"] == pytest.approx(resident, rel=0.2)
    assert seen["process_cpu_seconds_total"] == pytest.approx(time.process_time(), abs=0.5, rel=0.1)
    assert time.time() - 86_400 < seen["process_start_time_seconds"] < time.time()
    assert seen["process_max_fds"] >= seen["process_open_fds"]


async def test_a_name_with_blanks_and_brackets_moves_no_field() -> None:
    plain = process_metrics()
    with named("a) b (c 1 2 3"):
        odd = process_metrics()
    assert odd["process_start_time_seconds"] == plain["process_start_time_seconds"]
    assert odd["process_threads"] == plain["process_threads"]
