"""Write answers for Kafka clients, as pieces: records are not copied until all are joined."""

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from docstore.kafka.schemas import MISSING, Fields, FieldSchema, Schema, answer_schema

Pieces = list[bytes | memoryview]
Writer = Callable[[Pieces, Any], None]

NO_TAGS = b"\0"


@cache
def answer_writer(key: int, version: int) -> Writer:
    """Return the function that appends the pieces of an answer without its header."""
    return _of_schema(answer_schema(key, version))


def varint(value: int) -> bytes:
    """Return an unsigned whole number in the encoding of variable length."""
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _packed(form: str) -> Writer:
    pack = struct.Struct(f">{form}").pack
    return lambda pieces, value: pieces.append(pack(value))


def _milliseconds(form: str) -> Writer:
    pack = struct.Struct(f">{form}").pack
    return lambda pieces, value: pieces.append(pack(round(value * 1000)))


_OF_FIXED_SIZE: dict[str, Writer] = {
    "int8": _packed("b"),
    "int16": _packed("h"),
    "int32": _packed("i"),
    "int64": _packed("q"),
    "uint16": _packed("H"),
    "error_code": _packed("h"),
    "datetime_i64": lambda pieces, value: pieces.append(
        struct.pack(">q", -1 if value is None else value)
    ),
    "timedelta_i32": _milliseconds("i"),
    "timedelta_i64": _milliseconds("q"),
    "bool": _packed("?"),
    "float64": _packed("d"),
    "uuid": lambda pieces, value: pieces.append(bytes(16) if value is None else value),
}


def _of_variable_size(kafka_type: str, *, is_flexible: bool) -> Writer:
    pack_length = struct.Struct(">h" if kafka_type == "string" else ">i").pack

    def write(pieces: Pieces, value: str | bytes | None) -> None:
        raw = value.encode() if isinstance(value, str) else value
        if is_flexible:
            pieces.append(varint(0 if raw is None else len(raw) + 1))
        else:
            pieces.append(pack_length(-1 if raw is None else len(raw)))
        if raw:
            pieces.append(raw)

    return write


def _records(*, is_flexible: bool) -> Writer:
    """Return the writer of records, which come in pieces."""

    def write(pieces: Pieces, value: Sequence[bytes | memoryview]) -> None:
        size = sum(map(len, value))
        pieces.append(varint(size + 1) if is_flexible else struct.pack(">i", size))
        pieces += value

    return write


def _array(element: Writer, *, is_flexible: bool) -> Writer:
    def write(pieces: Pieces, values: Sequence[Any] | None) -> None:
        count = -1 if values is None else len(values)
        pieces.append(varint(count + 1) if is_flexible else struct.pack(">i", count))
        for each in values or ():
            element(pieces, each)

    return write


def _or_null(element: Writer) -> Writer:
    def write(pieces: Pieces, value: Fields | None) -> None:
        pieces.append(b"\xff" if value is None else b"\x01")
        if value is not None:
            element(pieces, value)

    return write


def _of_field(field: FieldSchema, *, is_flexible: bool) -> Writer:
    if field.inner is not None:
        element = _of_schema(field.inner)
        if field.is_nullable and not field.is_array:
            return _or_null(element)
    elif field.kafka_type in _OF_FIXED_SIZE:
        element = _OF_FIXED_SIZE[field.kafka_type]
    elif field.kafka_type == "records":
        element = _records(is_flexible=is_flexible)
    else:
        element = _of_variable_size(field.kafka_type, is_flexible=is_flexible)
    return _array(element, is_flexible=is_flexible) if field.is_array else element


def _of_schema(schema: Schema) -> Writer:
    """Return the writer of fields. It writes no tagged field: clients know their defaults."""
    is_flexible = schema.is_flexible
    writers = [
        (each.name, each.default, _of_field(each, is_flexible=is_flexible))
        for each in schema.fields
        if each.tag < 0
    ]

    def write(pieces: Pieces, value: Fields) -> None:
        given = vars(value)
        for name, default, of_field in writers:
            field = given.get(name, default)
            if field is MISSING:
                raise AttributeError(f"an answer lacks the field {name}")
            of_field(pieces, field)
        if is_flexible:
            pieces.append(NO_TAGS)

    return write
