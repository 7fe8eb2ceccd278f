"""Metrics of a node's sessions, for Prometheus."""

from collections.abc import Mapping

from docstore.sessions.machine import Sessions

LAG = "_lag_us"
"""End of the names of counters that sum up delays, in microseconds."""


def session_metrics(machine: Sessions) -> Mapping[str, float]:
    """Return the gauges and counters of sessions: name -> value.

    leases: live leases that this node owns. waiting: clients that wait at this node. A lag is a
    sum; divided by the number of expiries it is the average delay.
    """
    values = {
        "docstore_sessions_leases": float(len(machine.leasing.deadlines)),
        "docstore_sessions_waiting": float(machine.waiting.size),
    }
    for name, count in {"expiry_lag_us": 0, **machine.core.counters}.items():
        if name.endswith(LAG):
            values[f"docstore_sessions_{name.removesuffix('_us')}_seconds_total"] = count / 1e6
        else:
            values[f"docstore_sessions_{name.replace('-', '_')}_total"] = float(count)
    return values
