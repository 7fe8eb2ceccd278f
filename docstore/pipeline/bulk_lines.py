"""Turn rows into operations: one line of `/core/bulk` for each.

A row is for a document right below the path of the write. Rows that were read from a factory carry
its links. If those were followed, a write to one factory would change another, and an overwrite
would empty one and fill the other. So a link to another place is refused, unless the option
`foreignLinks` says what to do with it.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from hashlib import blake2b
from itertools import repeat
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
from orjson import Fragment
from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from docstore.model import document_members
from docstore.model.document import EXPIRY
from docstore.model.document_members import Type
from docstore.model.operation import RUN_BEGINS
from docstore.model.slots import slot_of
from docstore.pipeline.errors import PipelineError
from docstore.pipeline.kinds import check_members, check_name
from docstore.pipeline.options import Options
from docstore.pipeline.replacing import predicate_of, why_outside
from docstore.pipeline.values import Formless, objects, texts, values

OPERATIONS = (
    "upsert", "insert", "ignore", "replace", "patch", "jsonPatch", "delete", "append_version",
)  # fmt: skip
EXPECTING = ("append_version", "replace", "patch", "jsonPatch", "delete")
"""Operations that check the version in the column of the option expectVersion."""
REFUSE, MOVE, FOLLOW = FOREIGN_LINKS = ("refuse", "move", "follow")
"""refuse the row; move it below the path under its own id; follow its link to any place.

An id with a slash is not a foreign link, and is never cut, since two ids could become one.
"""
RUN = "run"
"""Option that only writers of tables set: the name of this run of a job (`writing.py`)."""
DIGEST_BYTES = 12
JSON_NAMES: dict[type, str] = {dict: "object", list: "array"}
KEY = "documentSelfLink"
SET_BY_STORE = frozenset(document_members.COLUMN_NAMES) | {
    each.time_name for each in document_members.COLUMNS if each.type is Type.TIME
}
"""Columns that a read returns and that the store sets; no document has members of these names."""
ALSO_READ = frozenset(("slot", "seq", "deleted", "digest", "before", EXPIRY.removesuffix("Micros")))
"""Columns that a read returns but whose names members of a document may have as well."""


class WriteFailed(PipelineError):
    """A row could not be written, and the options make this an error of the job."""


class RowRefused(WriteFailed):
    """A row that would be refused again, so that a retry does not help."""


class BulkLine(NamedTuple):
    """One operation as JSON, and the link of its document."""

    link: str
    value: bytes
    slot: int
    wrong: str = ""
    """Reason why the operation cannot be sent; "" if it can."""


class BulkLines:
    """Turns Arrow batches into operations."""

    def __init__(self, options: Options, schema: StructType, slots: int) -> None:
        self._operation = options.choice("operation", OPERATIONS)
        self._path = options.path
        self._foreign = options.choice("foreignLinks", FOREIGN_LINKS)
        self._key = options.text("key", KEY)
        self._sequence = options.text("sequenceBy")
        self._run = options.text(RUN)
        self._replaced = predicate_of(options, self._operation)
        self.digest = 0
        """Sum of the hashes of all operations so far, which does not depend on their order."""
        self._slots = slots
        names = schema.names
        if self._key not in names:
            raise ValueError(
                f"docstore: the rows must have a column {self._key!r}, the key of each document"
            )
        if self._sequence and self._sequence not in names:
            raise ValueError(
                f"docstore: the rows must have a column {self._sequence!r}, by "
                "which they are ordered"
            )
        check_name(schema, self._key)
        self._body = options.text("body", "body" if "body" in names else "")
        is_text = isinstance(_type_of(schema, self._body), StringType | BinaryType)
        if self._body and self._operation != "delete" and not is_text:
            raise ValueError(
                f"docstore: `body` must be a column of JSON strings; got {self._body!r}"
            )
        self._body_type: type = list if self._operation == "jsonPatch" else dict
        if self._body_type is list and not self._body:
            raise ValueError("docstore: jsonPatch needs a column `body` with arrays (RFC 6902)")
        self._members = [] if self._body else self._members_among(names)
        if self._operation != "delete":
            _insist_on_meaning(self._members, names)
            check_members(schema, self._members)
        self._expected = self._expected_column(options, names)

    def _members_among(self, names: Sequence[str]) -> list[str]:
        """Return the columns that become members; the column with the ids comes last."""
        used = {self._key} | SET_BY_STORE
        if SET_BY_STORE.intersection(names):
            used |= ALSO_READ & {self._sequence}  # This column was read with the row.
        named = [] if self._key in SET_BY_STORE else [self._key]
        return [name for name in names if name not in used] + named

    def _expected_column(self, options: Options, names: Sequence[str]) -> str:
        """Return the column with the version that a document must have, "" for none."""
        if self._operation != "append_version" and not options.text("expectVersion"):
            return ""
        column = options.text("expectVersion", "documentVersion")
        if column not in names:
            raise ValueError(
                f"docstore: the rows must have a column {column!r}, the version of each document"
            )
        if self._operation not in EXPECTING:
            raise ValueError(
                f"docstore: {self._operation} would ignore expectVersion: leave it out, or use"
                f" {', '.join(EXPECTING)}"
            )
        return column

    def of(self, batch: pa.RecordBatch, job: str, number: int) -> Iterator[BulkLine]:
        keys = texts(batch.column(self._key), self._key)
        sequences = _ordered(batch.column(self._sequence)) if self._sequence else []
        expected = batch.column(self._expected).to_pylist() if self._expected else []
        name = f"{job}{RUN_BEGINS}{self._run}" if self._run else job
        writer: dict[str, Any] = {"job": name, "batch": number}
        verb, unexpected = self._verb(None), ""
        for at, (key, (body, malformed)) in enumerate(zip(keys, self._bodies(batch), strict=True)):
            if self._sequence:
                writer["sequence"] = _sequence(sequences[at])
            link, wrong = self._address(key)
            if expected:
                version, unexpected = self._version(expected[at])
                verb = self._verb(version)
            wrong = wrong or unexpected
            value = {"link": link, "writer": writer, **verb}
            if value["op"] != "DELETE":
                # A body that cannot be sent is a string in the dead letter.
                value["body"] = body.decode(errors="replace") if malformed else Fragment(body)
                wrong = wrong or malformed
                if self._replaced is not None and not wrong:
                    wrong = why_outside(self._replaced, link, body)
            raw = orjson.dumps(value)
            self.digest += int.from_bytes(blake2b(raw, digest_size=DIGEST_BYTES).digest())
            yield BulkLine(link, raw, slot_of(link, self._slots), wrong)

    def _address(self, key: str | Formless | None) -> tuple[str, str]:
        """Return the link of a row's document, and the reason why it is refused ("" for none)."""
        if isinstance(key, Formless):
            return "", key.why
        if not key:
            return "", f"{self._key!r} is null or empty in a row"
        is_link, path = key.startswith("/"), self._path
        link = key if is_link else f"{path}/{key}"
        above, _, name = link.rpartition("/")
        if (above == path and name) or self._foreign == FOLLOW:
            return link, ""
        if self._foreign == MOVE and is_link and name:
            return f"{path}/{name}", ""
        if not is_link:
            return link, (
                f"{key} is an id with a slash, and no document of {path} has one: write"
                " another character for it, such as ~; foreignLinks is for links that begin with /"
            )
        return link, (
            f"{key} is no document of {path}, the path of this write;"
            " foreignLinks=move writes it there under its own id, follow where its link leads"
        )

    def _version(self, given: Any) -> tuple[int | None, str]:
        """Return the expected version, and the reason why the row is refused ("" for none)."""
        if given is None:
            is_needed = self._operation != "append_version"
            return None, f"{self._expected!r} is null in a row" if is_needed else ""
        version = version_of(given)
        why = f"{self._expected} is {given!r}, not a version, which is a whole number"
        return version, "" if version is not None else why

    def _bodies(self, batch: pa.RecordBatch) -> Iterator[tuple[bytes, str]]:
        """Yield the body of each row, and the reason why it cannot be sent ("" for none)."""
        if self._operation == "delete":
            return repeat((b"", ""), batch.num_rows)
        if not self._body:
            return objects(batch, self._members)
        column = batch.column(self._body)
        is_raw = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
        given = column.to_pylist() if is_raw else values(column, self._body)
        return (_checked(each, self._body_type) for each in given)

    def _verb(self, expected: int | None) -> dict[str, Any]:
        held = {} if expected is None else {"ifVersion": expected}
        match self._operation:
            case "insert" | "ignore":
                return {"op": "POST", "recreate": True}
            case "replace":
                return {"op": "PUT", "mustExist": True} | held
            case "patch" | "jsonPatch":
                return {"op": "PATCH"} | held
            case "delete":
                return {"op": "DELETE"} | held
            case "append_version":
                if expected is None or expected < 0:
                    return {"op": "POST", "recreate": True}
                return {"op": "PUT", "ifVersion": expected, "mustExist": True}
            case _:
                return {"op": "PUT"}


def _insist_on_meaning(members: Sequence[str], names: Sequence[str]) -> None:
    """Raise ValueError for a column name that may mean a member or the store's own column."""
    own = next((name for name in names if name in SET_BY_STORE), None)
    unclear = next((name for name in members if name in ALSO_READ), None)
    if own is not None and unclear is not None:
        raise ValueError(
            f"docstore: column {unclear!r} may be a member of the "
            f"documents, or may have been read with column {own!r}: drop "
            "it, or give the whole documents in a column body"
        )


def _checked(body: str | bytes | Formless | None, wanted: type) -> tuple[bytes, str]:
    """Return a body in one line, and the reason why it is refused ("" for none)."""
    if isinstance(body, Formless):
        return b"", body.why
    if body is None:
        return b"", "body is null"
    raw = body.encode() if isinstance(body, str) else body
    # In JSON a line break is white space between tokens: strings escape it.
    raw = raw.replace(b"\n", b" ")
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        return raw, f"body is not JSON: {error}"
    return raw, "" if isinstance(value, wanted) else f"body is not a JSON {JSON_NAMES[wanted]}"


def _type_of(schema: StructType, name: str) -> DataType | None:
    return schema[name].dataType if name in schema.names else None


def _ordered(array: pa.Array) -> list[Any]:
    """Return values as numbers in the same order: microseconds for times, days for dates."""
    if pa.types.is_temporal(array.type):
        array = array.cast(pa.int32() if pa.types.is_date32(array.type) else pa.int64())
    return list(array.to_pylist())


def version_of(value: Any) -> int | None:
    try:
        version = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return version if value in (version, str(version)) else None


def _sequence(value: Any) -> int:
    """Return the number that orders a row among those with its link. Raises WriteFailed."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or value % 1 != 0:
        raise WriteFailed(
            "docstore: sequenceBy must name a column with a whole number or a time in every row"
        )
    return int(value)
