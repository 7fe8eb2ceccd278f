"""Measure docstore without a rival: options, exit code and figures."""

import argparse
import asyncio
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import uvloop

from bench import machine
from bench.cluster import Failed
from bench.load import Load

Run = Callable[[argparse.Namespace], Awaitable[dict[str, Any]]]
HIDDEN = ("requests", "errors", "documents")
"""Figures that are kept and not printed."""


class Rows:
    """Results by the name of the row."""

    def __init__(self) -> None:
        self.figures: dict[str, Any] = {}

    def note(self, name: str, figures: Mapping[str, Any]) -> None:
        """Keep and show figures."""
        self.figures[name] = figures
        shown = {key: value for key, value in figures.items() if key not in HIDDEN}
        print(name, {key: round(value, 2) for key, value in shown.items()}, flush=True)

    def note_load(self, name: str, load: Load) -> None:
        """Keep and show what `wrk` reports. Raises Failed if a request failed."""
        if load.errors:
            raise Failed(f"{name}: {load.errors} requests failed")
        self.note(name, asdict(load))


def parser(module: str, about: str | None, name: str | None = None) -> argparse.ArgumentParser:
    """Return a parser of the options that all of them have. name: of the results' file."""
    found = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    found.add_argument("--dir", default="/var/tmp", help="a directory on a real disk")
    found.add_argument(
        "--name", default=name, help=f"of the file under bench/results/; default: {name or 'none'}"
    )
    return found


def outcome(run: Run, options: argparse.Namespace) -> int:
    """Run, keep the figures if they have a name, and return an exit code."""

    async def measured() -> bool:
        found = await run(options)
        if options.name:
            kept = {"at": time.strftime("%Y-%m-%dT%H:%M"), "options": vars(options), **found}
            path = Path(__file__).with_name("results") / f"{options.name}.json"
            path.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
        return True

    return exit_code(measured)


def exit_code(measured: Callable[[], Awaitable[bool]]) -> int:
    """Run, and turn what can go wrong into words and an exit code. measured: whether all is met."""

    async def run() -> bool:
        # Without this a SIGTERM would end us at once and leave the servers behind.
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await measured()

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return 0 if runner.run(run()) else 1
    except machine.Missing as missing:
        print(missing, file=sys.stderr)
        return 2
    except (Failed, TimeoutError) as failed:
        print(f"failed: {failed!r}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("stopped; nothing was kept", file=sys.stderr)
        return 130
