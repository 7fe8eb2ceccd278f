"""Check the options of readers and writers: a misspelt option is an error, not a default."""

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from docstore.errors import BadRequest
from docstore.model.settings import quoted
from docstore.pipeline.group_client import GroupClient, url_of
from docstore.query.aggregates import Grouping, grouping_of
from docstore.query.parser import parse

READ_FROM = ("nearest", "owner", "replica")
PARSE_MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
STRINGS = ("exact", "any")

COMMON = "url path retries timeoutMs job zone".split()
READ = (
    "columns members where asOf versions includeDeleted readFrom partitions minPartitions"
    " rowsPerSecond compression catchUpMs parseMode strings columnNameOfCorruptRecord bodyAs"
    " aggregates groupBy relation"
).split()
FEED = (
    "columns members where start end mode preImage onTrim maxChangesPerTrigger readFrom"
    " rowsPerSecond compression catchUpMs partitions minPartitions parseMode strings"
    " columnNameOfCorruptRecord consumer consumerTtl"
).split()
WRITE = (
    "operation key body sequenceBy expectVersion onConflict onError deadLetterPath maxErrors"
    " jobId batchId batchRows checkpointLocation commit foreignLinks onRepeat replaceWhere"
).split()
STREAM = (
    "columns keyAs valueAs startingOffsets endingOffsets startingTimestamp endingTimestamp"
    " failOnDataLoss subscribe subscribePattern"
    " maxOffsetsPerTrigger maxRecordsPerPartition jobId batchId batchRows checkpointLocation"
).split()


@dataclass(frozen=True, slots=True)
class Options:
    """Options by name, in any case."""

    given: Mapping[str, str]

    @staticmethod
    def of(given: Mapping[str, str], known: Iterable[str]) -> "Options":
        """Return the options. Raises ValueError, with a suggestion for a misspelt one."""
        names = {name.lower(): name for name in known}
        said = {name.lower() for name in given}
        # Spark passes `provider` for a table without columns, and no options for one with columns.
        if "provider" in said or not said & {"url", "path"}:
            raise ValueError(
                "docstore: neither url nor path is given, and a table in Spark's catalog keeps"
                " none: DROP TABLE it, and use CREATE TEMPORARY VIEW ... USING docstore"
                " OPTIONS (url '...', path '...')"
            )
        for name in given:
            if name.lower() not in names:
                near = difflib.get_close_matches(name.lower(), names, 1)
                hint = f"; did you mean {names[near[0]]!r}?" if near else ""
                raise ValueError(f"docstore: there is no option {name!r}{hint}")
        return Options({name.lower(): value for name, value in given.items()})

    def checked(self) -> "Options":
        """Check the options that must be right at `load()`. Raises ValueError."""
        assert self.urls
        assert self.path
        assert self.where is not None
        if self.grouping is not None and self.words("columns"):
            raise ValueError("docstore: aggregates have columns of their own, leave `columns` out")
        return self

    def with_(self, **others: str) -> "Options":
        """Return these options with some of them replaced."""
        return Options({**self.given, **{name.lower(): value for name, value in others.items()}})

    def refuse(self, why: str, name: str) -> None:
        """Raise ValueError for an option that has no meaning for this format."""
        if self.text(name):
            raise ValueError(f"docstore: leave {name} out: it would be ignored, because {why}")

    def text(self, name: str, default: str = "") -> str:
        return str(self.given.get(name.lower(), default))

    def number(self, name: str, default: int, least: int = 0) -> int:
        """Return a whole number. Raises ValueError."""
        text = self.text(name, str(default)).strip()
        if not (text.isascii() and text.isdecimal()) or int(text) < least:
            raise ValueError(
                f"docstore: {name} must be a whole number from {least}; got {quoted(text)}"
            )
        return int(text)

    def timeout_s(self, default_ms: int) -> float:
        """Return the option timeoutMs, in seconds. Raises ValueError."""
        return self.number("timeoutMs", default_ms, 1) / 1000

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return true or false. Raises ValueError."""
        text = self.text(name, str(default)).lower()
        if text not in ("true", "false"):
            raise ValueError(f"docstore: {name} must be true or false; got {quoted(text)}")
        return text == "true"

    def choice(self, name: str, choices: Iterable[str]) -> str:
        """Return one of `choices`; the first by default. Raises ValueError."""
        choices = list(choices)
        text = self.text(name, choices[0])
        found = next((each for each in choices if each.lower() == text.lower()), None)
        if found is None:
            raise ValueError(
                f"docstore: {name} must be one of {', '.join(choices)}; got {quoted(text)}"
            )
        return found

    def words(self, name: str) -> list[str]:
        """Return the words between commas."""
        return [each.strip() for each in self.text(name).split(",") if each.strip()]

    @property
    def urls(self) -> list[str]:
        """The nodes to begin with. Raises ValueError."""
        urls = self.words("url") or os.environ.get("DOCSTORE_URL", "").split(",")
        urls = [url_of(each) for each in urls if each.strip()]
        if not urls:
            raise ValueError(
                'docstore: give the nodes as option("url", "http://n1:8001,http://n2:8001")'
            )
        return urls

    @property
    def group(self) -> GroupClient:
        """A client of the group. Raises ValueError."""
        return GroupClient(self.urls)

    @property
    def path(self) -> str:
        """The path of the factory. Raises ValueError."""
        path = self.text("path").rstrip("/")
        if not path.startswith("/"):
            raise ValueError('docstore: give the path of a factory, such as load("/orders")')
        return path

    @property
    def topic(self) -> str:
        """The name of the topic. Raises ValueError."""
        name = self.text("path")
        if not name or "/" in name:
            raise ValueError(
                f'docstore: the name of a topic must be such as load("flights"); got {name!r}'
            )
        return name

    @property
    def grouping(self) -> Grouping | None:
        """The aggregates, None if rows are asked for. Raises ValueError."""
        try:
            return grouping_of(self.text("aggregates"), self.text("groupBy"))
        except BadRequest as error:
            raise ValueError(f"docstore: {error}") from None

    @property
    def where(self) -> str:
        """The condition, which is well formed. Raises ValueError."""
        text = self.text("where")
        try:
            if text.strip():
                parse(text)
        except BadRequest as error:
            raise ValueError(f"docstore: {error}") from None
        return text
