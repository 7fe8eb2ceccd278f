"""The node's scanning processes: started by a scan, ended when idle."""

import asyncio
import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import orjson

from docstore.errors import Unavailable

PROCESSES = max(1, min(4, os.cpu_count() or 1))
ANSWER_S = 120.0
"""Seconds after which a process without an answer is killed: far more than any page takes."""
IDLE_S = 60.0
UNUSED_S = 86_400.0
"""Seconds after the end of the processes until segments are deleted."""
PIPE_BYTES = 1 << 20

Answer = tuple[dict[str, Any], bytes]

_BROKEN = asyncio.IncompleteReadError | ConnectionError | TimeoutError | ValueError


def has_arrow() -> bool:
    return all(importlib.util.find_spec(name) for name in ("pyarrow", "adbc_driver_sqlite"))


class ScanPool:
    """Up to `size` processes, each with one question at a time; questions wait in their order.

    segments_bytes: maximum bytes that the processes may cache in the directory `segments` beside
    the file.
    """

    def __init__(self, path: Path, size: int, segments_bytes: int) -> None:
        self._segments = path.with_name("segments")
        # Segments may be stale: the database may have been replaced while the node was down.
        _delete(self._segments)
        self._arguments = (str(path), str(self._segments), str(segments_bytes))
        self._free = asyncio.Semaphore(size)
        self._idle: list[asyncio.subprocess.Process] = []
        self._all: set[asyncio.subprocess.Process] = set()
        self._reaper: asyncio.TimerHandle | None = None
        self._asking: set[asyncio.Task[Answer]] = set()
        self._ending: set[asyncio.Task[None]] = set()

    async def ask(self, question: dict[str, Any]) -> Answer:
        async with self._free:
            task = asyncio.create_task(self._exchange(question))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
            # The answer must be read from the process even if the caller is cancelled.
            return await asyncio.shield(task)

    async def stop(self) -> None:
        if self._reaper is not None:
            self._reaper.cancel()
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, *self._ending, return_exceptions=True)
        for process in list(self._all):
            await self._end(process)

    async def _exchange(self, question: dict[str, Any]) -> Answer:
        process = self._idle.pop() if self._idle else await self._started()
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await _answer(process, question)
        except BaseException as error:
            await self._end(process)
            if isinstance(error, _BROKEN):
                raise Unavailable("the scanning process has ended: ask again") from error
            raise
        self._idle.append(process)
        self._reap_later()
        return answer

    async def _started(self) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "docstore.reads.scans.worker", *self._arguments,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=PIPE_BYTES,
        )  # fmt: skip
        self._all.add(process)
        return process

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        self._all.discard(process)
        if process.returncode is None:
            process.kill()
        await process.wait()
        if process.stdin is not None:
            process.stdin.close()

    def _reap_later(self) -> None:
        if self._reaper is not None:
            self._reaper.cancel()
        self._reaper = asyncio.get_running_loop().call_later(IDLE_S, self._reap)

    def _reap(self) -> None:
        idle, self._idle = self._idle, []
        for process in idle:
            task = asyncio.create_task(self._end(process))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        self._reaper = asyncio.get_running_loop().call_later(UNUSED_S, self._forget)

    def _forget(self) -> None:
        """Delete the segments in a thread: there may be thousands of files."""
        asyncio.get_running_loop().run_in_executor(None, _delete, self._segments)


async def _answer(process: asyncio.subprocess.Process, question: dict[str, Any]) -> Answer:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(orjson.dumps(question) + b"\n")
    await process.stdin.drain()
    lengths = await process.stdout.readexactly(8)
    head, payload = int.from_bytes(lengths[:4], "big"), int.from_bytes(lengths[4:], "big")
    fields = orjson.loads(await process.stdout.readexactly(head))
    return fields, await process.stdout.readexactly(payload)


def _delete(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
