"""Let nodes check the filters of Spark, which Spark checks again.

Spark 4.3 uses the reader of a relation's latest scan for all scans of the relation: also for one
that was planned earlier and runs later, for both sides of a self-join, and for a scan without
filters, before which it does not call `pushFilters`. So `pipeline.read` puts a filter over the
relation that is always true: then Spark calls `pushFilters` before each scan. And a reader reads
the rows that any planned scan of the relation needs. The conditions of these scans are in a file,
in the driver's folder for temporary files. A task reads this file when it runs: its scan was
planned before, so its condition is there, whichever reader the task has. A task on another machine
than the driver's cannot see the file, and reads without filters.
"""

import fcntl
import json
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    IsNotNull,
)
from pyspark.sql.types import StructType

from docstore.errors import BadRequest
from docstore.pipeline import scanning
from docstore.pipeline.bodies import FAIL
from docstore.pipeline.filters import condition_of
from docstore.pipeline.options import PARSE_MODES, STRINGS, Options
from docstore.pipeline.reading import TableReader
from docstore.query.parser import parse

SETTING = "spark.sql.python.filterPushdown.enabled"
RELATION = "relation"
"""Option: the name of a relation whose every scan has a filter."""
ALWAYS = {"slot": "slot >= 0", "documentVersion": "documentVersion >= 0",
          "documentSelfLink": "documentSelfLink > ''"}  # fmt: skip
"""Column -> a filter that is always true, which Spark cannot know."""
_TRUE: Sequence[Filter] = (
    GreaterThanOrEqual(("slot",), 0), GreaterThanOrEqual(("documentVersion",), 0),
    GreaterThan(("documentSelfLink",), ""), *[IsNotNull((name,)) for name in ALWAYS],
)  # fmt: skip
"""The filters of `ALWAYS` as Spark hands them over: a node must not check them for each row."""
_NAME = re.compile(r"[0-9a-f]{32}")


def relation_of(spark: SparkSession) -> str:
    """Return the option for a new relation, "" if this session does not ask for filters."""
    return uuid.uuid4().hex if spark.conf.get(SETTING, "false") == "true" else ""


def guard_of(columns: Sequence[str]) -> str:
    """Return the filter to put over a relation, "" if it has no column for one."""
    return next((text for name, text in ALWAYS.items() if name in columns), "")


class PushingReader(TableReader):
    """Reads the documents that a scan of the relation may need."""

    def __init__(self, options: Options, schema: StructType) -> None:
        """Raises ValueError."""
        super().__init__(options, schema)
        self._given, self._schema = options, schema
        self.asked = ""
        """Condition of the scan that was planned last, "" for all rows."""
        if not _NAME.fullmatch(options.text(RELATION)):
            raise ValueError(f"docstore: leave {RELATION} out: pipeline.read sets it")

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802
        """Remember the filters, and return all of them: Spark evaluates them as well."""
        # A document that does not fit the schema must fail the query, whatever the filters say.
        if self._given.choice("parseMode", PARSE_MODES) != FAIL:
            is_text = self._given.choice("strings", STRINGS) == "any"
            asked = [each for each in filters if each not in _TRUE]
            self.asked = condition_of(asked, self._schema, any_is_text=is_text)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        scans = _file_of(self._given.text(RELATION))
        with _locked(scans) as file:
            if self.asked not in _conditions_in(file):
                file.write(json.dumps(self.asked) + "\n")
        # The reader is pickled before: only a partition can say where the file is.
        return [InputPartition((scans, each.value)) for each in super().partitions()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows that any scan needs which is planned by now."""
        if partition.value is None:
            return
        scans, share = partition.value
        request = share.request | {"where": self._wanted(scans)}
        for batch in scanning.batches(replace(share, request=request)):
            yield from self.rows.shaped(batch)

    def _wanted(self, scans: Path) -> str:
        if not scans.exists():
            return self._given.where
        with _locked(scans) as file:
            return _joined(self._given.where, _conditions_in(file))


def _file_of(relation: str) -> Path:
    """Return the file of the conditions of all scans of a relation that were planned."""
    begin = f"docstore-pushed-{os.getuid()}-"
    # Planners of one driver are children of one process, which lives as long as the driver.
    directory = Path(tempfile.gettempdir()) / f"{begin}{os.getppid()}"
    if not directory.exists():
        _delete_left_over(directory.parent, begin)
    directory.mkdir(mode=0o700, exist_ok=True)
    if directory.stat().st_uid != os.getuid():
        raise ValueError(f"docstore: {directory} belongs to another user: delete it")
    return directory / relation


@contextmanager
def _locked(path: Path) -> Iterator[TextIO]:
    """Open a file to read it and to append to it, for one process at a time."""
    with path.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _conditions_in(file: TextIO) -> set[str]:
    file.seek(0)
    return {json.loads(line) for line in file}


def _delete_left_over(folder: Path, begin: str) -> None:
    for each in folder.glob(f"{begin}*"):
        with suppress(ValueError, PermissionError):
            try:
                os.kill(int(each.name.removeprefix(begin)), 0)
            except ProcessLookupError:
                shutil.rmtree(each, ignore_errors=True)


def _joined(where: str, conditions: set[str]) -> str:
    """Return the condition of the rows that any scan needs."""
    if "" in conditions:
        return where
    found = " or ".join(f"({each})" for each in sorted(conditions))
    found = f"({where}) and ({found})" if where.strip() else found
    try:
        parse(found)
    except BadRequest:  # The condition is too large.
        return where
    return found
