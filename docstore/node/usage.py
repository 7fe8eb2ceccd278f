"""What this process takes of the machine, by the names that Prometheus' own clients give it.

Linux only, from proc(5); elsewhere there is nothing to tell.
"""

import asyncio
import os
import resource
from collections.abc import Mapping
from pathlib import Path

_HERE = Path("/proc/self")
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
USER, SYSTEM, THREADS, START, PAGES = 14, 15, 20, 22, 24
"""Fields of a stat line, counted from one as in proc(5)."""


def process_metrics() -> Mapping[str, float]:
    """Return name -> value: memory, processor, open files, threads, tasks of the event loop."""
    try:
        line = (_HERE / "stat").read_text()
        files = sum(1 for _ in (_HERE / "fd").iterdir()) - 1  # One is open to list them.
        booted = (_HERE.parent / "stat").read_text().partition("btime ")[2].split()[0]
    except OSError:
        return {}
    # The name, its second field, may hold blanks and brackets: what follows the last one counts.
    fields = ["", "", "", *line.rpartition(")")[2].split()]
    ticks = int(fields[USER]) + int(fields[SYSTEM])
    return {
        "process_cpu_seconds_total": ticks / _TICKS_A_SECOND,
        "process_resident_memory_bytes": float(int(fields[PAGES]) * resource.getpagesize()),
        "process_start_time_seconds": int(booted) + int(fields[START]) / _TICKS_A_SECOND,
        "process_open_fds": float(files),
        "process_max_fds": float(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        "process_threads": float(fields[THREADS]),
        "docstore_tasks": float(len(asyncio.all_tasks())),
    }
