"""Read the requests of Kafka clients, whatever their bytes are.

kio's own reader allocates what the length of an array claims, so that five bytes can end a process.
Here no length exceeds the bytes that follow it, and a request has a bounded number of elements.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from docstore.kafka.schemas import MISSING, Fields, FieldSchema, Schema, request_schema

ELEMENTS_MAX = 20_000
"""Maximum number of array elements in a request: each costs about a microsecond."""
VARINT_BYTES_MAX = 5


class Malformed(Exception):
    """The bytes do not agree with their key, version and lengths."""


class Cursor:
    """A position in the bytes of one request."""

    __slots__ = ("_at", "_data", "_elements")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._elements = 0

    def take(self, size: int) -> bytes:
        """Return the next bytes. Raises Malformed."""
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise Malformed(f"{size} bytes are claimed, and {len(self._data) - self._at} follow")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def whole(self, size: int, *, signed: bool = True) -> int:
        """Return a whole number of `size` bytes."""
        return int.from_bytes(self.take(size), "big", signed=signed)

    def varint(self) -> int:
        """Return an unsigned whole number in the encoding of variable length."""
        value = 0
        for nth in range(VARINT_BYTES_MAX):
            [byte] = self.take(1)
            value |= (byte & 0x7F) << 7 * nth
            if byte < 0x80:
                return value
        raise Malformed(f"a number has more than {VARINT_BYTES_MAX} bytes")

    def claim(self, elements: int) -> int:
        """Return the length of an array. Raises Malformed if fewer bytes follow."""
        left = len(self._data) - self._at
        self._elements += max(0, elements)
        if elements > left or self._elements > ELEMENTS_MAX:
            raise Malformed(f"an array claims {elements} elements, and {left} bytes follow")
        return elements


Reader = Callable[[Cursor], Any]


def short_text(cursor: Cursor) -> str | None:
    """Return a string with a length of two bytes, None for null."""
    size = cursor.whole(2)
    return None if size < 0 else _decoded(cursor.take(size))


@cache
def request_reader(key: int, version: int) -> Reader:
    """Return the function that reads a request without its header. It raises Malformed."""
    return _of_schema(request_schema(key, version))


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Malformed("a string is not UTF-8") from None


def _signed(size: int) -> Reader:
    return lambda cursor: cursor.whole(size)


def _seconds(size: int) -> Reader:
    return lambda cursor: cursor.whole(size) / 1000


_OF_FIXED_SIZE: dict[str, Reader] = {
    "int8": _signed(1),
    "int16": _signed(2),
    "int32": _signed(4),
    "int64": _signed(8),
    "uint16": lambda cursor: cursor.whole(2, signed=False),
    "error_code": _signed(2),
    "datetime_i64": _signed(8),
    "timedelta_i32": _seconds(4),
    "timedelta_i64": _seconds(8),
    "bool": lambda cursor: cursor.take(1) != b"\0",
    "float64": lambda cursor: struct.unpack(">d", cursor.take(8))[0],
    "uuid": lambda cursor: cursor.take(16),
}


def _of_variable_size(kafka_type: str, *, is_flexible: bool, is_nullable: bool) -> Reader:
    is_text = kafka_type == "string"
    length_bytes = 2 if is_text else 4

    def read(cursor: Cursor) -> bytes | str | None:
        size = cursor.varint() - 1 if is_flexible else cursor.whole(length_bytes)
        if size < 0:
            if not is_nullable:
                raise Malformed(f"a value of the type {kafka_type} must not be null")
            return None
        raw = cursor.take(size)
        return _decoded(raw) if is_text else raw

    return read


def _array(element: Reader, *, is_flexible: bool, is_nullable: bool) -> Reader:
    def read(cursor: Cursor) -> list[Any] | None:
        count = cursor.claim(cursor.varint() - 1 if is_flexible else cursor.whole(4))
        if count < 0 and not is_nullable:
            raise Malformed("an array must not be null")
        return None if count < 0 else [element(cursor) for _ in range(count)]

    return read


def _of_field(field: FieldSchema, *, is_flexible: bool) -> Reader:
    if field.inner is not None:
        element = _of_schema(field.inner)
        if field.is_nullable and not field.is_array:
            return lambda cursor: None if cursor.whole(1) < 0 else element(cursor)
    elif field.kafka_type in _OF_FIXED_SIZE:
        element = _OF_FIXED_SIZE[field.kafka_type]
    else:
        is_nullable = field.is_nullable and not field.is_array
        element = _of_variable_size(
            field.kafka_type, is_flexible=is_flexible, is_nullable=is_nullable
        )
    if field.is_array:
        return _array(element, is_flexible=is_flexible, is_nullable=field.is_nullable)
    return element


def _of_schema(schema: Schema) -> Reader:
    is_flexible = schema.is_flexible
    readers = {each.name: _of_field(each, is_flexible=is_flexible) for each in schema.fields}
    plain = [(each.name, readers[each.name]) for each in schema.fields if each.tag < 0]
    tagged = {each.tag: each.name for each in schema.fields if each.tag >= 0}
    defaults = {
        each.name: None if each.default is MISSING else each.default
        for each in schema.fields
        if each.tag >= 0
    }

    def read(cursor: Cursor) -> Fields:
        found = {name: of_field(cursor) for name, of_field in plain}
        if is_flexible:
            found |= defaults
            for _ in range(cursor.claim(cursor.varint())):
                tag, raw = cursor.varint(), cursor.take(cursor.varint())
                if tag in tagged:
                    found[tagged[tag]] = readers[tagged[tag]](Cursor(raw))
        return Fields(**found)

    return read
