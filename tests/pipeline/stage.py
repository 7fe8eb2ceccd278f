"""The rig of the pipeline: a session, a group, a factory, and the usual calls."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from docstore.client.local import LocalCluster
from docstore.pipeline.group_client import GroupClient, GroupError


@dataclass(frozen=True, slots=True)
class Stage:
    """One factory under test."""

    spark: Any
    cluster: LocalCluster
    path: str

    @staticmethod
    def of(spark: Any, cluster: LocalCluster, path: str, **members: Any) -> "Stage":
        """Declare the factory."""
        stage = Stage(spark, cluster, path)
        try:
            stage.group.json("POST", "/core/factories", {"path": path, **members})
        except GroupError as error:
            if error.status != 409:
                raise
        return stage

    @property
    def url(self) -> str:
        """Return the nodes that run."""
        return ",".join(node.url for node in self.cluster.nodes if node.process is not None)

    @property
    def group(self) -> GroupClient:
        """Return the group over HTTP."""
        return GroupClient(self.url.split(","))

    def bulk(self, operations: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Send operations; return the answers."""
        body = b"".join(json.dumps(each).encode() + b"\n" for each in operations)
        group, kind = self.group, {"Content-Type": "application/x-ndjson"}
        with group.open("POST", group.urls[0], "/core/bulk", body, kind) as answer:
            return [json.loads(line) for line in answer.read().splitlines()]

    def put(self, bodies: Mapping[str, Mapping[str, Any]]) -> None:
        """Put documents; all of them must be stored."""
        lines = [{"link": f"{self.path}/{name}", "body": body} for name, body in bodies.items()]
        answers = self.bulk(lines)
        wrong = [each for each in answers if each["status"] >= 300]
        assert wrong == []

    def delete(self, names: Iterable[str]) -> None:
        """Delete documents."""
        lines = [{"op": "DELETE", "link": f"{self.path}/{name}"} for name in names]
        assert {each["status"] for each in self.bulk(lines)} <= {200, 204}

    def load(self, **options: Any) -> Any:
        """Return the factory as a table."""
        return self._reader("docstore", options).load(self.path)

    def changes(self, **options: Any) -> Any:
        """Return the factory's changes between two cuts."""
        return self._reader("docstore.changes", options).load(self.path)

    def _reader(self, form: str, options: Mapping[str, Any]) -> Any:
        reader = self.spark.read.format(form).option("url", self.url)
        for name, value in options.items():
            reader = reader.option(name, value)
        return reader

    def documents(self, **options: Any) -> dict[str, Any]:
        """Return name -> body of a snapshot."""
        rows = self.load(**options).select("documentSelfLink", "body").collect()
        return {row[0].removeprefix(self.path + "/"): json.loads(row[1]) for row in rows}

    def stored(self) -> dict[str, Any]:
        """Return name -> document as a node returns it, of a factory that is one page."""
        page = self.group.json("GET", f"{self.path}?expand")
        assert "nextPageLink" not in page
        documents = page["documents"].items()
        return {link.removeprefix(self.path + "/"): each for link, each in documents}

    def history(self, name: str) -> list[dict[str, Any]]:
        """Return a document's versions, newest first."""
        page = self.group.json("GET", f"{self.path}/{name}/versions?limit=500")
        return list(page["versions"])

    def metric(self, name: str) -> float:
        """Return the sum of a counter over all nodes."""
        total = 0.0
        for node in self.cluster.nodes:
            with self.group.open("GET", node.url, "/metrics") as answer:
                for line in answer.read().decode().splitlines():
                    if line.startswith(name + " "):
                        total += float(line.split()[-1])
        return total

    def cut(self) -> str:
        """Return the cut of now."""
        return str(self.group.json("GET", "/core/spark/plan")["cut"])
