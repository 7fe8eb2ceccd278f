"""Run a job: give it a session, an id and a document in the store."""

import json
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from pyspark.sql import SparkSession

from docstore.pipeline.errors import PipelineError, line_of
from docstore.pipeline.group_client import GroupClient, GroupError
from docstore.pipeline.writing import JOBS

LINK_AND_BODY = ("documentSelfLink", "body")


@dataclass(slots=True)
class Work:
    """One run of a job."""

    spark: SparkSession
    url: str
    name: str
    job_id: str = ""
    dry_run: bool = False
    started: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.job_id = self.job_id or f"{self.name}-{uuid.uuid4().hex[:12]}"

    @property
    def group(self) -> GroupClient:
        return GroupClient(self.url.split(","))

    def progress(self, what: str) -> None:
        sys.stderr.write(f"{self.name}: {what} ({time.time() - self.started:.1f} s)\n")

    def run(self, job: Callable[..., dict[str, Any]], **arguments: Any) -> dict[str, Any]:
        """Run the job, keep its document up to date, and return its result."""
        self._leave("RUNNING", {"arguments": json.loads(json.dumps(arguments, default=str))})
        try:
            result = job(self, **arguments)
        except BaseException as error:
            try:
                self._leave("FAILED", {"error": f"{type(error).__name__}: {line_of(error)}"})
            except PipelineError as unwritten:  # The error of the job is the one to raise.
                self.progress(f"{JOBS}/{self.job_id} still says RUNNING: {line_of(unwritten)}")
            raise
        result = {
            "job": self.name, "jobId": self.job_id, "dryRun": self.dry_run,
            "seconds": round(time.time() - self.started, 3), **result,
        }  # fmt: skip
        self._leave("DONE", {"result": result})
        return result

    def _leave(self, state: str, more: dict[str, Any]) -> None:
        page = {"kind": "docstore:Job", "job": self.job_id, "name": self.name, "state": state}
        self.group.json("PUT", f"{JOBS}/{quote(self.job_id, safe='')}", page | more)


def declare(group: GroupClient, path: str) -> None:
    """Declare a factory unless it exists. Raises GroupError, also if it was deleted."""
    try:
        group.json("POST", "/core/factories", {"path": path})
    except GroupError as error:
        if error.code != "already-exists":
            raise
