"""Figures of a node's partitions for its management page and for Prometheus."""

from collections.abc import Mapping

from docstore.streams.partitions import Partitions

BECAUSE = "elections because "


def partitions_page(machine: Partitions) -> dict[str, int]:
    """Return how many partitions this node has a replica of, leads, and follows.

    short: partitions led whose live replica set lacks a replica. faulty: replicas that cannot vouch
    for their log until they are filled again.
    """
    leading = [each for each in machine.leader.leading.values() if each.is_online]
    logs = machine.logs
    return {
        "held": len(logs),
        "led": len(leading),
        "followed": len(machine.follower.following),
        "short": sum(len(each.recorded) < 1 + len(each.followers) for each in leading),
        "faulty": sum(not log.full for log in logs.values()),
    }


def partition_metrics(machine: Partitions) -> Mapping[str, float]:
    """Return the counters and gauges of streams: name -> value."""
    values = {f"docstore_partitions_{name}": float(count) for name, count in
              partitions_page(machine).items()}  # fmt: skip
    for name, count in machine.core.counters.items():
        if name.startswith(BECAUSE):
            cause = name.removeprefix(BECAUSE)
            values[f'docstore_streams_elections_by_cause_total{{cause="{cause}"}}'] = float(count)
        else:
            values[f"docstore_streams_{name}_total"] = float(count)
    return values
