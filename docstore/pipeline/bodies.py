"""Parse bodies into columns: members of documents, with the types of a schema.

Arrow's JSON reader parses a whole batch at once. If it refuses the batch, each half is parsed, down
to the one document that it refuses, which `fitting.py` checks against the schema. So a document
that does not fit costs its own row only, and little of the speed of the others.

Arrow's reader does not read all types as the store writes them: it reads dates as numbers of days,
binary as plain text, and accepts a zone in a time without one. These are read in the form that JSON
has, and cast afterwards. Decimals are read in twice the bits, since the reader multiplies them up
to their scale without a check of overflow. It does not read maps.
"""

import base64
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from docstore.pipeline.errors import PipelineError
from docstore.pipeline.fitting import SchemaMismatch, fitted
from docstore.pipeline.options import PARSE_MODES

PERMISSIVE, DROP, FAIL = PARSE_MODES


class Malformed(PipelineError):
    """A document does not fit the schema, and the mode is FAILFAST."""


def members(
    bodies: pa.Array, fields: Sequence[pa.Field], mode: str, *, links: pa.Array | None = None,
    any_is_text: bool = False,
) -> tuple[list[pa.Array], pa.Array]:  # fmt: skip
    """Return an array for each member, and for each row whether it fits the schema.

    links: the links of the documents, for the message. any_is_text: whether a string takes any
    value, as its JSON. Raises Malformed in mode FAILFAST.
    """
    wire = [_wire(field.type) for field in fields]
    named = [pa.field(f.name, t) for f, t in zip(fields, wire, strict=True) if t is not None]
    found = _Found(fields, named if len(named) == len(fields) else None, any_is_text)
    found.take(bodies)
    if found.unfit and mode == FAIL:
        at, why = next(iter(found.unfit.items()))
        link = "a document" if links is None else links[at].as_py()
        raise Malformed(f"docstore: {link} does not fit the schema: {why}")
    good = pa.array([at not in found.unfit for at in range(len(bodies))], pa.bool_())
    return found.arrays(), good


class _Found:
    """The columns parsed so far from the documents of a batch."""

    def __init__(
        self, fields: Sequence[pa.Field], wire: Sequence[pa.Field] | None, any_is_text: bool
    ) -> None:
        """wire: the types with which Arrow reads the fields, None if it cannot."""
        self._fields, self._wire, self._any_is_text = fields, wire, any_is_text
        self._columns: list[list[pa.Array]] = [[] for _ in fields]
        self._rows = 0
        self.unfit: dict[int, str] = {}

    def take(self, bodies: pa.Array) -> None:
        if not len(bodies):
            return
        if self._wire is None:
            self._one_by_one(bodies)
            return
        try:
            self._add(_whole(bodies, self._fields, self._wire))
        except (pa.ArrowException, ValueError):
            if len(bodies) == 1:
                self._one_by_one(bodies)
                return
            half = len(bodies) // 2
            self.take(bodies[:half])
            self.take(bodies[half:])

    def _one_by_one(self, bodies: pa.Array) -> None:
        rows = []
        for at, body in enumerate(bodies.to_pylist(), self._rows):
            try:
                rows.append(fitted(body, self._fields, any_is_text=self._any_is_text))
            except SchemaMismatch as error:
                self.unfit[at] = str(error)
                rows.append([None] * len(self._fields))
        columns = zip(*rows, strict=True)
        self._add([pa.array(c, f.type) for c, f in zip(columns, self._fields, strict=True)])

    def _add(self, arrays: Sequence[pa.Array]) -> None:
        for column, array in zip(self._columns, arrays, strict=True):
            column.append(array)
        self._rows += len(arrays[0])

    def arrays(self) -> list[pa.Array]:
        return [
            pa.chunked_array(column, field.type).combine_chunks()
            for column, field in zip(self._columns, self._fields, strict=True)
        ]


def _whole(
    bodies: pa.Array, fields: Sequence[pa.Field], wire: Sequence[pa.Field]
) -> list[pa.Array]:
    """Return the members of documents that all fit. Raises ArrowException, ValueError."""
    filled = pc.fill_null(bodies, "{}")
    lines = b"\n".join(value.as_buffer().to_pybytes() for value in filled)
    options = pa.json.ParseOptions(
        explicit_schema=pa.schema(wire), unexpected_field_behavior="ignore",
        newlines_in_values=False,
    )  # fmt: skip
    block = pa.json.ReadOptions(block_size=len(lines) + 1, use_threads=False)
    table = pa.json.read_json(pa.BufferReader(lines), block, options)
    if table.num_rows != len(bodies):
        raise pa.ArrowInvalid(
            "a body is empty or contains a line break; each must be JSON on one line"
        )
    return [_made(table.column(field.name).combine_chunks(), field.type) for field in fields]


def _wire(kind: pa.DataType) -> pa.DataType | None:
    """Return the type with which Arrow's reader reads a member, None if it cannot."""
    if pa.types.is_map(kind):
        return None
    if pa.types.is_float32(kind):
        return pa.float64()  # A number too large for float32 would become an infinity.
    if pa.types.is_decimal(kind):
        return pa.decimal256(kind.precision, kind.scale)
    if pa.types.is_list(kind):
        inner = _wire(kind.value_type)
        if inner is None:
            return None
        return pa.list_(kind.value_field.with_type(inner).with_nullable(True))
    if pa.types.is_struct(kind):
        inside = [(field, _wire(field.type)) for field in kind]
        known = [field.with_type(t).with_nullable(True) for field, t in inside if t is not None]
        return pa.struct(known) if len(known) == len(inside) else None
    is_naive = pa.types.is_timestamp(kind) and kind.tz is None
    return pa.string() if is_naive or pa.types.is_date(kind) or _is_binary(kind) else kind


def _made(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast a member as it was read to its type. Raises ArrowException, ValueError."""
    if array.type == kind:
        return array
    if pa.types.is_float32(kind):
        made = array.cast(kind)
        if pc.any(pc.is_inf(made)).as_py():
            raise pa.ArrowInvalid("a number is too large")
        return made
    if pa.types.is_decimal(kind):
        array.validate(full=True)  # The reader has checked only the digits of the text.
    if pa.types.is_list(kind):
        inner = _made(array.values, kind.value_type)
        return pa.ListArray.from_arrays(array.offsets, inner, kind, mask=array.is_null())
    if pa.types.is_struct(kind):
        parts = [_made(array.field(at), field.type) for at, field in enumerate(kind)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if _is_binary(kind):
        return pa.array([_bytes(text) for text in array.to_pylist()], kind)
    return array.cast(kind)


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _bytes(text: str | None) -> Any:
    return None if text is None else base64.b64decode(text, validate=True)
