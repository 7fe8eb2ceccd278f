"""Kafka's requests and answers by key and version, as kio generated them from Kafka's schemas.

`decoding.py` reads a request by its schema, `encoding.py` writes an answer by its own.
"""

import dataclasses
from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace, UnionType
from typing import Any, NamedTuple, get_args, get_origin

from kio.index import load_request_schema, load_response_schema

MISSING = dataclasses.MISSING


class Fields(SimpleNamespace):
    """The fields of a request or an answer by their names in kio, durations in seconds.

    An answer may have fields that its version lacks, and lack those that have a default.
    """


class FieldSchema(NamedTuple):
    """One field.

    kafka_type: "int32", "string", ...; "" for fields of its own, which `inner` describes. default:
    MISSING for none. tag: -1 for none.
    """

    name: str
    kafka_type: str
    inner: "Schema | None"
    is_array: bool
    is_nullable: bool
    default: Any
    tag: int


class Schema(NamedTuple):
    """The fields of a request, an answer, or a part of one."""

    is_flexible: bool
    fields: Sequence[FieldSchema]


@cache
def request_schema(key: int, version: int) -> Schema:
    """Return the schema of a request. Raises UnknownAPIKey, UnknownEntity."""
    return _schema(load_request_schema(key, version))


@cache
def answer_schema(key: int, version: int) -> Schema:
    """Return the schema of an answer. Raises UnknownAPIKey, UnknownEntity."""
    return _schema(load_response_schema(key, version))


def _schema(entity: Any) -> Schema:
    return Schema(entity.__flexible__, tuple(map(_field, dataclasses.fields(entity))))


def _field(field: dataclasses.Field[Any]) -> FieldSchema:
    kind: Any = field.type
    is_nullable = isinstance(kind, UnionType)
    if is_nullable:
        [kind] = (each for each in get_args(kind) if each is not type(None))
    is_array = get_origin(kind) is tuple
    if is_array:
        kind = get_args(kind)[0]
    inner = _schema(kind) if dataclasses.is_dataclass(kind) else None
    kafka_type = "" if inner else str(field.metadata["kafka_type"])
    default = 0 if kafka_type.startswith("timedelta") else field.default
    tag = field.metadata.get("tag", -1)
    return FieldSchema(field.name, kafka_type, inner, is_array, is_nullable, default, tag)
