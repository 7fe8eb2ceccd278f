"""The counters and gauges of a node, by their Prometheus names."""

import asyncio
import os
import resource
from collections.abc import Mapping
from pathlib import Path

from docstore.node.handler_calls import HandlerCalls
from docstore.node.parts import Parts
from docstore.node.running import RunningNode
from docstore.runtime.audit import AUDIT
from docstore.sessions.measures import session_metrics
from docstore.streams.measures import partition_metrics


def metrics_of(
    parts: Parts, calls: HandlerCalls, running: RunningNode | None
) -> Mapping[str, float]:
    """Return name -> value. running: None while the node does not know its group."""
    values = dict(process_metrics())
    families: dict[str, Mapping[str, float]] = {
        "peer": parts.links.counters,
        "gossip": parts.membership.counters(),
    }
    values.update(parts.store.measures())
    values.update(calls.metrics())
    if AUDIT.is_on:
        values["docstore_audit_lines_lost_total"] = float(AUDIT.lines_lost)
    if parts.credentials is not None:
        values["docstore_tls_expires_seconds"] = parts.credentials.expires_s
    if parts.access is not None:
        values["docstore_access_file_refused"] = float(parts.access.is_outdated)
    if running is not None:
        values.update(_running(running))
        families |= {"scan": running.scans.counters, "repair": running.repair.counters}
        if running.deliverer is not None:
            values.update(running.deliverer.metrics())
            families["subscriptions"] = running.deliverer.counters
    for family, counters in families.items():
        for name, count in counters.items():
            values[f"docstore_{family}_{name}_total"] = float(count)
    return values


def _running(running: RunningNode) -> Mapping[str, float]:
    return {
        **running.status.metrics(),
        "docstore_documents_expired_total": float(running.expiring.expired),
        "docstore_event_loop_lag_seconds": running.driver.loop_lag_s,
        "docstore_requests_in_flight": float(running.in_flight),
        **partition_metrics(running.streams.machine),
        **session_metrics(running.sessions.machine),
        **running.agendas.metrics(),
        **running.indexing.metrics(),
    }


_HERE = Path("/proc/self")
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
USER, SYSTEM, THREADS, START, PAGES = 14, 15, 20, 22, 24
"""Fields of a line of /proc/self/stat, counted from one as in proc(5)."""


def process_metrics() -> Mapping[str, float]:
    """Return the process's use of the computer, by the names of Prometheus' own clients.

    Linux only, from proc(5); elsewhere it is empty.
    """
    try:
        line = (_HERE / "stat").read_text()
        # One of the files is open only to list the others.
        files = sum(1 for _ in (_HERE / "fd").iterdir()) - 1
        booted = (_HERE.parent / "stat").read_text().partition("btime ")[2].split()[0]
    except OSError:
        return {}
    # The process name, the second field, may contain blanks and brackets: skip to the last one.
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
