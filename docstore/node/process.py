"""One node as a process: event loop, signals, exit code, and the line that announces its URL."""

import asyncio
import gc
import signal
import sys
from dataclasses import replace
from typing import TextIO

import uvloop

from docstore.config import Config
from docstore.errors import BadConfig, DiskFull, StoreBroken, StoreInUse
from docstore.node.node import Node
from docstore.node.open_files import fitting
from docstore.node.quarantine import EXIT_DISK_FAILED

EXIT_STOPPED = 0
EXIT_BAD_CONFIG = 2
EXIT_NO_ROOM = 75
"""Exit code for a full disk, as sendmail's EX_TEMPFAIL: start again once the disk has room."""
POLL_S = 0.02
GIL_SWITCH_S = 0.0005
"""Seconds for which the disk's thread waits at most for the interpreter's lock; Python's default is
5 ms."""
GC_THRESHOLDS = (50_000, 20, 50)
"""New objects before a collection of the youngest generation, and collections before one of the
next generation. With Python's 700, 10, 10 a bulk load spends a quarter of its time on collections
that find nothing, because few of a node's objects are parts of cycles."""


async def _main(config: Config) -> int:
    loop = asyncio.get_running_loop()
    node = Node(config)
    try:
        await node.start()
        gc.freeze()  # Later collections may skip the objects of the start, which stay in use.
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, node.drain)
        if config.tls.paths:
            loop.add_signal_handler(signal.SIGHUP, node.reload)
        announced = asyncio.create_task(_announce(node))
        await node.stopping.wait()
        announced.cancel()
        await asyncio.gather(announced, return_exceptions=True)
        await node.drained()
    finally:
        await node.stop()
    return EXIT_STOPPED


async def _announce(node: Node) -> None:
    while not node.gate.ready()[0]:  # noqa: ASYNC110 - readiness has many causes, and is met once
        await asyncio.sleep(POLL_S)
    _say(f"docstore {node.parts.node_id} serves at {node.config.url}", sys.stdout)


def _say(line: str, stream: TextIO) -> None:
    stream.write(line + "\n")
    stream.flush()


def run(config: Config) -> int:
    """Run a node until it is stopped; return the exit code of the process.

    0 stopped, 2 bad configuration or a directory in use, 74 the disk failed, 75 the disk has no
    room for a start.
    """
    sys.setswitchinterval(GIL_SWITCH_S)
    gc.set_threshold(*GC_THRESHOLDS)
    gc.freeze()  # Later collections may skip the imported modules, too.
    gc.enable()
    config = replace(config, limits=fitting(config.limits))
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_main(config))
    except (BadConfig, StoreInUse) as error:
        _say(f"docstore: {error}", sys.stderr)
        return EXIT_BAD_CONFIG
    except StoreBroken as error:
        _say(f"docstore: {error}", sys.stderr)
        return EXIT_DISK_FAILED
    except DiskFull as error:
        _say(f"docstore: {error}", sys.stderr)
        return EXIT_NO_ROOM
    except OSError as error:
        _say(f"docstore: cannot start: {error.strerror or error}", sys.stderr)
        return EXIT_BAD_CONFIG
