"""A measurement without a rival: its options, its exit code, the figures that it keeps."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop

from bench import machine
from bench.cluster import Failed

Run = Callable[[argparse.Namespace], Awaitable[dict[str, Any]]]


def parser(module: str, about: str | None) -> argparse.ArgumentParser:
    """Return a parser of the options that all of them have."""
    found = argparse.ArgumentParser(prog=f"python -m bench.{module}", description=about)
    found.add_argument("--dir", default="/var/tmp", help="a directory on a real disk")
    found.add_argument("--name", help="of the file under bench/results/; default: none is kept")
    return found


def outcome(run: Run, options: argparse.Namespace) -> int:
    """Run, keep the figures if they have a name, and return an exit code."""

    async def figures() -> dict[str, Any]:
        return await run(options)

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            found = runner.run(figures())
    except machine.Missing as missing:
        print(missing, file=sys.stderr)
        return 2
    except Failed as failed:
        print(failed, file=sys.stderr)
        return 1
    if options.name:
        kept = {"at": time.strftime("%Y-%m-%dT%H:%M"), "options": vars(options), **found}
        path = Path(__file__).with_name("results") / f"{options.name}.json"
        path.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    return 0
