"""Pages of a healthy group of three nodes, and changes that make them faulty."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from docstore.cli.diagnosis.seen import NodeReport, Seen

NAMES = ("n1", "n2", "n3")
NOW_S = 1_795_677_494.0
Change = Callable[["Pages"], None]


class Pages:
    """The pages of the nodes, which a test may change."""

    def __init__(self) -> None:
        members = [
            {"id": name, "status": "ALIVE", "zone": f"z{name[1]}", "role": "voter",
             "address": f"http://10.0.0.{name[1]}:8001", "secondsSinceChange": 700.0}
            for name in NAMES
        ]  # fmt: skip
        self.group: dict[str, Any] = {
            "members": copy.deepcopy(members),
            "convergence": "CONVERGED",
            "configuration": {
                "stage": "stable", "replicationFactor": None, "voters": list(NAMES), "quorum": 2,
                "members": members,
            },
        }  # fmt: skip
        self.selector: dict[str, Any] = {
            "replicationFactor": 3,
            "table": [
                {"slot": slot, "owner": NAMES[slot % 3], "replicas": list(NAMES)}
                for slot in range(6)
            ],
        }
        self.nodes = {
            name: NodeReport(_management(name), {"process_max_fds": 10256.0}) for name in NAMES
        }
        self.factories: list[Any] = [{"path": "/notes"}]
        self.topics: list[Any] = [
            {"name": "orders", "resolution": "provisioned",
             "partitions": [_partition(0), _partition(1)]}
        ]  # fmt: skip

    def member(self, name: str) -> dict[str, Any]:
        """Return a member's entry of the configuration."""
        [found] = [each for each in self.group["configuration"]["members"] if each["id"] == name]
        return found  # type: ignore[no-any-return]

    def page(self, name: str) -> dict[str, Any]:
        """Return a node's page, which the caller may change."""
        found = self.nodes[name].page
        assert isinstance(found, dict)
        return found

    def set_metric(self, name: str, metric: str, value: float) -> None:
        """Set a metric of a node."""
        node = self.nodes[name]
        self.nodes[name] = replace(node, metrics={**node.metrics, metric: value})

    def kill(self, name: str) -> None:
        """Let the other nodes report a node as dead."""
        for each in (self.member(name), *self.group["members"]):
            if each["id"] == name:
                each["status"] = "DEAD"
        del self.nodes[name]

    def seen(self) -> Seen:
        """Return the pages as `docstore doctor` reads them."""
        return Seen(
            group=self.group, selector=self.selector, nodes=self.nodes, factories=self.factories,
            topics=self.topics, now_s=NOW_S,
        )  # fmt: skip


def _management(name: str) -> dict[str, Any]:
    return {
        "id": name, "version": "0.1.0", "protocol": 8, "ready": True, "reason": "",
        "limits": {"connections_max": 10_000}, "plainText": [], "openSecrets": [],
        "disk": {"totalBytes": 100 << 30, "freeBytes": 50 << 30},
        "slots": {"held": 6, "owned": 2, "faulty": 0},
        "replicationLag": {each: 0 for each in NAMES if each != name},
        "eventLoopLagMs": 0.4, "partitions": {"short": 0, "faulty": 0},
    }  # fmt: skip


def _partition(number: int) -> dict[str, Any]:
    return {
        "partition": number, "leader": "n1", "resolution": "Online", "replicas": list(NAMES),
        "lrs": [[name, "ab"] for name in NAMES], "minInSync": 2,
        "followers": [{"id": name, "lag": 0} for name in NAMES[1:]],
    }  # fmt: skip
