"""A topic under test, and flights to append to it."""

import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from docstore.client.local import LocalCluster
from docstore.pipeline.group_client import GroupClient, GroupError
from docstore.streams.routing import partition_of

NDJSON = {"Content-Type": "application/x-ndjson"}
AIRPORTS = ("ABQ", "BOS", "CMH", "DAL", "ELP", "FLL", "GEG", "HOU")


def flights(count: int, first: int = 0) -> list[dict[str, Any]]:
    """Return flights, each with a number of its own, that depart from a few airports."""
    rng = random.Random(first)
    return [
        {"number": n, "origin": rng.choice(AIRPORTS), "delay": int(rng.gauss(8, 30))}
        for n in range(first, first + count)
    ]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic for one test."""

    spark: Any
    cluster: LocalCluster
    name: str

    @staticmethod
    def of(spark: Any, cluster: LocalCluster, name: str, **members: Any) -> "Topic":
        """Make the topic."""
        topic = Topic(spark, cluster, name)
        topic.make(**members)
        return topic

    def make(self, **members: Any) -> None:
        """Make the topic, now or again."""
        self.group.json("POST", "/core/streams", {"name": self.name, "partitions": 3, **members})

    @property
    def group(self) -> GroupClient:
        """Return the group over HTTP."""
        return GroupClient(self.cluster.urls)

    @property
    def path(self) -> str:
        """Return the path of the topic."""
        return f"/core/streams/{self.name}"

    def page(self) -> list[dict[str, Any]]:
        """Return the partitions on the topic's page."""
        return list(self.group.json("GET", self.path)["partitions"])

    def post(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append flights by their origins, once: a busy machine may replace a leader meanwhile."""
        count = len(self.page())
        parts: dict[int, list[bytes]] = {}
        for row in rows:
            line = {"key": row["origin"], "value": row, "headers": {"from": "test"}}
            number = partition_of(row["origin"].encode(), count)
            parts.setdefault(number, []).append(json.dumps(line).encode())
        producer = uuid4().hex
        epoch = self.group.json("POST", "/core/producers", {"id": producer})["epoch"]
        numbered = {**NDJSON, "Docstore-Producer": f"{producer}; epoch={epoch}; sequence=0"}
        for number, lines in parts.items():
            self._append(f"{self.path}/partitions/{number}/records", b"\n".join(lines), numbered)

    def _append(self, path: str, lines: bytes, headers: Mapping[str, str]) -> None:
        """Append the records of one partition; repeat the request until its outcome is known."""
        group, deadline = self.group, time.monotonic() + 90
        while True:
            try:
                with group.open("POST", group.urls[0], path, lines, headers) as answer:
                    answer.read()
                return
            except GroupError as error:
                if error.status < 500 or time.monotonic() > deadline:
                    raise

    def lose(self) -> int:
        """Return how many records of partition 0 retention has trimmed, once there are some."""
        deadline = time.monotonic() + 30
        row = {"number": -1, "origin": "ABQ", "delay": 0}
        body = {"value": row, "partition": 0}
        while not (base := self.page()[0]["base"]):
            assert time.monotonic() < deadline
            self.group.json("POST", f"{self.path}/records", body)
            time.sleep(0.05)
        return int(base)

    def read(self, **options: Any) -> Any:
        """Return the topic as a table."""
        return self._with(self.spark.read, options).load(self.name)

    def follow(self, **options: Any) -> Any:
        """Return the topic as a stream."""
        return self._with(self.spark.readStream, options).load(self.name)

    def write(self, rows: Any, **options: Any) -> None:
        """Append a DataFrame."""
        self._with(rows.write, options).mode("append").save(self.name)

    def _with(self, asked: Any, options: Mapping[str, Any]) -> Any:
        url = ",".join(self.cluster.urls)
        return asked.format("docstore.stream").options(url=url, **options)


def numbers(rows: Any) -> list[int]:
    """Return the flights' numbers, in order."""
    return sorted(json.loads(row["value"])["number"] for row in rows.select("value").collect())
