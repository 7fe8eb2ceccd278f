"""One node as a process: event loop, signals, exit code, and the line that announces its URL."""

import asyncio
import gc
import platform
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import structlog
import uvloop

from docstore import __version__
from docstore.config import Config
from docstore.errors import BadConfig, DiskFull, StoreBroken, StoreInUse
from docstore.node.node import Node
from docstore.node.open_files import fitting
from docstore.node.quarantine import EXIT_DISK_FAILED
from docstore.runtime import logs
from docstore.runtime.audit import AUDIT

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

log = structlog.get_logger("docstore.node")


async def _main(config: Config, settings: Mapping[str, Any]) -> int:
    loop = asyncio.get_running_loop()
    node = Node(config)
    try:
        await node.start()
        log.info(
            "this node has started", version=__version__, python=platform.python_version(),
            id=node.parts.node_id, url=config.url, settings=dict(settings),
        )  # fmt: skip
        AUDIT.note("node started", version=__version__)
        gc.freeze()  # Later collections may skip the objects of the start, which stay in use.
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, node.drain, number.name)
        if config.tls.paths:
            loop.add_signal_handler(signal.SIGHUP, node.reload)
        announced = asyncio.create_task(_announce(node))
        await node.stopping.wait()
        announced.cancel()
        await asyncio.gather(announced, return_exceptions=True)
        await node.drained()
    finally:
        await node.stop()
    log.info("this node has stopped")
    return EXIT_STOPPED


async def _announce(node: Node) -> None:
    while not node.gate.ready()[0]:  # noqa: ASYNC110 - readiness has many causes, and is met once
        await asyncio.sleep(POLL_S)
    log.info("this node serves", url=node.config.url)
    sys.stdout.write(f"docstore {node.parts.node_id} serves at {node.config.url}\n")
    sys.stdout.flush()


def run(config: Config, settings: Mapping[str, Any]) -> int:
    """Run a node until it is stopped; return the exit code of the process.

    settings: the given ones, for the log. 0 stopped, 2 bad configuration or a directory in use, 74
    the disk failed, 75 the disk has no room for a start.
    """
    sys.setswitchinterval(GIL_SWITCH_S)
    gc.set_threshold(*GC_THRESHOLDS)
    gc.freeze()  # Later collections may skip the imported modules, too.
    gc.enable()
    config = replace(config, limits=fitting(config.limits))
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_main(config, settings))
    except (BadConfig, StoreInUse) as error:
        code, why = EXIT_BAD_CONFIG, str(error)
    except StoreBroken as error:
        code, why = EXIT_DISK_FAILED, str(error)
    except DiskFull as error:
        code, why = EXIT_NO_ROOM, str(error)
    except OSError as error:
        code, why = EXIT_BAD_CONFIG, f"cannot start: {error.strerror or error}"
    logs.say(why, "this process ends", why=why, code=code)
    return code
