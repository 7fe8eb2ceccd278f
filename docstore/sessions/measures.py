"""Metrics of a node's sessions, for Prometheus."""

from collections.abc import Mapping

from docstore.sessions.machine import Sessions

EXPIRY_LAG = "expiry_lag_us"


def session_metrics(machine: Sessions) -> Mapping[str, float]:
    """Return the gauges and counters of sessions: name -> value.

    leases: live leases that this node owns. waiting: clients that wait at this node. The lag of
    expiries is a sum; divided by their number it is the average delay.
    """
    values = {
        "docstore_sessions_leases": float(len(machine.leasing.deadlines)),
        "docstore_sessions_waiting": float(machine.waiting.size),
    }
    for name, count in machine.core.counters.items():
        if name != EXPIRY_LAG:
            values[f"docstore_sessions_{name.replace('-', '_')}_total"] = float(count)
    lag_us = machine.core.counters[EXPIRY_LAG]
    values["docstore_sessions_expiry_lag_seconds_total"] = lag_us / 1e6
    return values
