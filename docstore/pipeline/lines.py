"""Rows as operations: one line of `/core/bulk` for each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql.types import StructType

from docstore.pipeline.errors import PipelineError
from docstore.pipeline.options import Options
from docstore.protocol.slots import slot_of

OPERATIONS = (
    "upsert", "insert", "ignore", "replace", "patch", "jsonPatch", "delete", "append_version",
)  # fmt: skip
JSON_NAMES: dict[type, str] = {dict: "object", list: "array"}
KEY = "documentSelfLink"
NOT_OF_A_BODY = frozenset(
    "documentSelfLink documentVersion documentEpoch documentOwner documentUpdateTime"
    " documentUpdateTimeMicros documentUpdateAction slot seq deleted digest".split()
)


class WriteFailed(PipelineError):
    """A row could not be written, and the options say that this fails the job."""


class RowRefused(WriteFailed):
    """A row will never be written as it is: trying again would not help."""


@dataclass(frozen=True, slots=True)
class Line:
    """One operation on its way: its JSON, and the link that it is for."""

    link: str
    value: bytes
    slot: int
    wrong: str = ""
    """Why it cannot be sent."""


class Lines:
    """Turns Arrow batches into operations."""

    def __init__(self, options: Options, schema: StructType, slots: int) -> None:
        self._operation = options.choice("operation", OPERATIONS)
        self._path = options.path
        self._key = options.text("key", KEY)
        self._sequence = options.text("sequenceBy")
        self._expect = options.text("expectVersion", "documentVersion")
        self._slots = slots
        names = schema.names
        if self._key not in names:
            raise ValueError(f"docstore: there is no column {self._key!r} to name documents by")
        given = options.text("body", "body" if "body" in names else "")
        self._body = given if given in names else ""
        self._body_type: type = list if self._operation == "jsonPatch" else dict
        if self._body_type is list and not self._body:
            raise ValueError("docstore: jsonPatch needs a column `body` with arrays (RFC 6902)")
        used = {self._key, self._sequence} | NOT_OF_A_BODY
        self._members = [name for name in names if name not in used] if not self._body else []
        if self._key not in NOT_OF_A_BODY and not self._body:
            self._members.append(self._key)
        self._asked = [n for n in (self._key, self._body, self._sequence) if n]
        self._expects = bool(options.text("expectVersion"))
        if self._operation == "append_version" or self._expects:
            if self._expect not in names:
                raise ValueError(
                    f"docstore: there is no column {self._expect!r}, the version to go on from"
                )
            self._asked.append(self._expect)

    def of(self, batch: pa.RecordBatch, job: str, number: int) -> Iterator[Line]:
        """Yield an operation for each row."""
        columns = {name: batch.column(name).to_pylist() for name in self._asked}
        bodies = columns.get(self._body) or _objects(batch, self._members)
        for at, (key, body) in enumerate(zip(columns[self._key], bodies, strict=True)):
            writer: dict[str, Any] = {"job": job, "batch": number}
            if self._sequence:
                writer["sequence"] = _sequence(columns[self._sequence][at])
            link = self._link(key)
            value = {"link": link, "writer": writer, **self._verb(columns, at)}
            wrong = ""
            if value["op"] != "DELETE":
                # What is made of columns is an object; text that a user gives may be anything.
                wrong = _wrong_with(body, self._body_type) if self._body else ""
                # A line is a line: in JSON a line break stands between things, never in them.
                text = body if isinstance(body, bytes) else (body or "{}").replace("\n", " ")
                value["body"] = text if wrong else orjson.Fragment(text)
            yield Line(link, orjson.dumps(value), slot_of(link, self._slots), wrong)

    def _link(self, key: Any) -> str:
        if key is None or key == "":
            raise WriteFailed(f"docstore: a row has nothing in {self._key!r}")
        text = str(key)
        return text if text.startswith("/") else f"{self._path}/{text}"

    def _verb(self, columns: Mapping[str, Sequence[Any]], at: int) -> dict[str, Any]:
        match self._operation:
            case "insert" | "ignore":
                return {"op": "POST", "recreate": True}
            case "replace":
                return {"op": "PUT", "mustExist": True}
            case "patch" | "jsonPatch":
                return {"op": "PATCH"}
            case "delete" if self._expects:
                return {"op": "DELETE", "ifVersion": int(columns[self._expect][at])}
            case "delete":
                return {"op": "DELETE"}
            case "append_version":
                expected = columns[self._expect][at]
                if expected is None or expected < 0:
                    return {"op": "POST", "recreate": True}
                return {"op": "PUT", "ifVersion": int(expected), "mustExist": True}
            case _:
                return {"op": "PUT"}


def _wrong_with(body: str | bytes | None, wanted: type) -> str:
    """Return why a text is no body, "" if it is one: nothing else goes between our members."""
    try:
        value = orjson.loads(body or "{}")
    except orjson.JSONDecodeError as error:
        return f"body is not JSON: {error}"
    return "" if isinstance(value, wanted) else f"body is not a JSON {JSON_NAMES[wanted]}"


def _objects(batch: pa.RecordBatch, members: Sequence[str]) -> Iterator[bytes]:
    """Yield the JSON object of each row's columns, without those that are null."""
    for row in batch.select(list(members)).to_pylist():
        kept = {name: value for name, value in row.items() if value is not None}
        yield orjson.dumps(kept, default=_plain)


def _plain(value: Any) -> Any:
    """Return what JSON can say of a value: a decimal is a number with all its digits."""
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return orjson.Fragment(text.rstrip("0").rstrip(".") if "." in text else text)
    return str(value)


def _sequence(value: Any) -> int:
    """Return a number in the order of the values: times count in microseconds."""
    if isinstance(value, bool) or value is None:
        raise WriteFailed("docstore: sequenceBy needs a number or a time in every row")
    if hasattr(value, "timestamp"):
        return int(value.timestamp() * 1_000_000)
    return int(value)
