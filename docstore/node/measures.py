"""A node's counters and gauges, as Prometheus names them: of all its parts, put together."""

from collections.abc import Mapping

from docstore.node.handler_calls import HandlerCalls
from docstore.node.parts import Parts
from docstore.node.running import RunningNode
from docstore.node.usage import process_metrics
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
    }
