"""Let nodes check the filters of Spark, which Spark checks again.

Spark 4.3 keeps the reader of the latest scan of a relation for all its scans: for one that was
planned before and runs later, for both sides of a self-join, and for a scan without filters, for
which it does not ask. So `pipeline.read` puts a filter over the relation that is always true, by
which Spark asks before each scan; and a reader keeps the rows of all scans that were ever asked
for, which a file in the driver's folder for temporary files remembers.
"""

import fcntl
import json
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.datasource import Filter, InputPartition
from pyspark.sql.types import StructType

from docstore.errors import BadRequest
from docstore.pipeline.bodies import FAIL
from docstore.pipeline.filters import condition_of
from docstore.pipeline.options import PARSE_MODES, STRINGS, Options
from docstore.pipeline.reading import RowShaper, TableReader, own_columns
from docstore.query.parser import parse

SETTING = "spark.sql.python.filterPushdown.enabled"
RELATION = "relation"
"""Option: the name of a relation whose every scan has a filter."""
ALWAYS = {"slot": "slot >= 0", "documentVersion": "documentVersion >= 0",
          "documentSelfLink": "documentSelfLink > ''"}  # fmt: skip
"""Column -> a filter that is always true, which Spark cannot know."""
SETTLE_S = 0.25
"""Seconds in which Spark surely keeps the reader of a planner that has ended."""
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
        self._asked = ""
        if not _NAME.fullmatch(options.text(RELATION)):
            raise ValueError(f"docstore: leave {RELATION} out: pipeline.read sets it")

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802
        """Remember the filters, and return all of them: Spark evaluates them as well."""
        # A document that does not fit the schema must fail the query, whatever the filters say.
        if self._given.choice("parseMode", PARSE_MODES) != FAIL:
            is_text = self._given.choice("strings", STRINGS) == "any"
            self._asked = condition_of(filters, self._schema, any_is_text=is_text)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        scans = Scans(self._given.text(RELATION))
        known = scans.add(self._asked)
        while True:
            self.options = self._given.with_(where=_joined(self._given.where, known))
            self.rows = RowShaper(self.options, self._schema, own_columns(self.options))
            shares = super().partitions()
            latest = scans.add(self._asked)
            if latest == known:
                return shares
            known = latest  # Another thread has planned a scan meanwhile.


class Scans:
    """The conditions of all scans of a relation that were planned, in a file of the driver."""

    def __init__(self, relation: str) -> None:
        begin = f"docstore-pushed-{os.getuid()}-"
        # Planners of one driver are children of one process, which lives as long as the driver.
        directory = Path(tempfile.gettempdir()) / f"{begin}{os.getppid()}"
        if not directory.exists():
            _delete_left_over(directory.parent, begin)
        directory.mkdir(mode=0o700, exist_ok=True)
        if directory.stat().st_uid != os.getuid():
            raise ValueError(f"docstore: {directory} belongs to another user: delete it")
        self._path = directory / relation

    def add(self, condition: str) -> set[str]:
        """Add the condition of a scan; return those of all scans."""
        with self._path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            found = {json.loads(line) for line in file}
            is_recent = time.time() - os.fstat(file.fileno()).st_mtime < SETTLE_S
            if condition not in found:
                if found and is_recent:
                    time.sleep(SETTLE_S)
                file.write(json.dumps(condition) + "\n")
            else:
                os.utime(self._path)
        return found | {condition}


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
    except BadRequest:  # It is too large.
        return where
    return found
