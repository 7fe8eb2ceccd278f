"""One request of a Kafka client: read its header and body, call the handler of its key, write.

    frame: key, version, correlation id, client id, then the body by key and version

The handlers are tables of `Api`. A handler is called in the order of a connection's requests; it
returns the answer, or `Later` for one whose outcome other requests need not wait for.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kio.index import UnknownAPIKey, UnknownEntity

from docstore.http.authority import Authority
from docstore.http.request_log import outcome_of
from docstore.kafka.decoding import Cursor, Malformed, request_reader, short_text
from docstore.kafka.encoding import NO_TAGS, Pieces, answer_writer
from docstore.kafka.errors import ErrorCode
from docstore.kafka.sasl import Login
from docstore.kafka.schemas import (
    MISSING,
    Fields,
    FieldSchema,
    Schema,
    answer_schema,
    request_schema,
)
from docstore.runtime.audit import AUDIT

API_VERSIONS = 18
HEAD_BYTES = 10
"""Bytes of the shortest request: key, version, correlation id and a null client id."""


class Later(NamedTuple):
    """An answer that is made from an outcome, once that is known."""

    outcome: "asyncio.Future[Any]"
    answer: Callable[[Any], Fields]


Result = Fields | Later | None
"""The result of a handler; None: the client waits for no answer."""


@dataclass(slots=True)
class Call:
    """One request of a client.

    client_id: the name that the client gives itself. address: the client's host. more: set while
    another request of the connection waits for this one.
    """

    key: int
    version: int
    client_id: str
    address: str
    request: Fields
    authority: Authority
    login: Login
    more: asyncio.Event

    def may(self, method: str, path: str) -> bool:
        """Say whether the user may use this method of HTTP at a path; audit a refusal."""
        is_allowed = self.authority.may(method, path)
        if not is_allowed:
            AUDIT.note_refusal(
                "request refused", user=self.authority.name, address=self.address, method=method,
                path=path, status=403, protocol="kafka",
            )  # fmt: skip
        return is_allowed

    def note_change(self, method: str, path: str, status: int, **asked: object) -> None:
        """Write a change into the audit log, as HTTP does for the same request."""
        AUDIT.note(
            "change", outcome=outcome_of(status), user=self.authority.name, address=self.address,
            method=method, path=path, status=status, protocol="kafka", asked=asked or None,
        )  # fmt: skip


class Api(NamedTuple):
    """A request type of Kafka (its API key), the versions that are served, and its handler."""

    key: int
    least: int
    most: int
    handler: Callable[[Call], Awaitable[Result]]


class Unfinished(NamedTuple):
    """An answer that is written once its outcome is known."""

    outcome: "asyncio.Future[Any]"
    write: Callable[[Any], Pieces]


class Dispatch:
    """Serves the requests of all connections."""

    def __init__(self, apis: Iterable[Api]) -> None:
        own = Api(API_VERSIONS, 0, 3, self._versions)
        self._apis: Mapping[int, Api] = {each.key: each for each in (own, *apis)}
        self.served: dict[int, int] = dict.fromkeys(self._apis, 0)
        """Key -> number of requests."""

    async def serve(
        self, frame: bytes, address: str, login: Login, more: asyncio.Event
    ) -> Pieces | Unfinished | None:
        """Serve one request; return the pieces of its answer, None if there is no answer.

        Raises Malformed for bytes that are no request, after which the connection must close.
        """
        cursor = Cursor(frame)
        key, version = cursor.whole(2), cursor.whole(2)
        correlation, client_id = cursor.take(4), short_text(cursor)
        api = self._apis.get(key)
        if api is None or not api.least <= version <= api.most:
            return self._refused(key, version, correlation)
        schema = request_schema(key, version)
        if schema.is_flexible:
            _skip_tags(cursor)
        request = request_reader(key, version)(cursor)
        authority = await login.authority_for(key)
        self.served[key] += 1
        call = Call(key, version, client_id or "", address, request, authority, login, more)
        result = await api.handler(call)
        if result is None:
            return None
        if isinstance(result, Fields):
            return _written(key, version, correlation, result)
        answer = result.answer
        return Unfinished(
            result.outcome, lambda outcome: _written(key, version, correlation, answer(outcome))
        )

    async def _versions(self, call: Call) -> Fields:
        return self._announced(ErrorCode.none)

    def _announced(self, code: ErrorCode) -> Fields:
        apis = sorted(self._apis.values())
        keys = [
            Fields(api_key=each.key, min_version=each.least, max_version=each.most) for each in apis
        ]
        return Fields(error_code=code, api_keys=keys)

    def _refused(self, key: int, version: int, correlation: bytes) -> Pieces:
        """Return the answer to a key or version that is not announced. Raises Malformed.

        As Kafka does, an unknown version of ApiVersions gets version 0, which all clients read.
        """
        if key == API_VERSIONS:
            answer = self._announced(ErrorCode.unsupported_version)
            return _written(key, 0, correlation, answer)
        try:
            schema = answer_schema(key, version)
        except (UnknownAPIKey, UnknownEntity):
            raise Malformed(f"key {key} has no version {version}") from None
        if all(each.name != "error_code" for each in schema.fields):
            raise Malformed(f"version {version} of key {key} is not served")
        return _written(key, version, correlation, _empty(schema))


def _skip_tags(cursor: Cursor) -> None:
    for _ in range(cursor.claim(cursor.varint())):
        cursor.varint()
        cursor.take(cursor.varint())


def _written(key: int, version: int, correlation: bytes, answer: Fields) -> Pieces:
    pieces: Pieces = [b"", correlation]
    # The answer to ApiVersions has the oldest header, as the client may not know the node.
    if answer_schema(key, version).is_flexible and key != API_VERSIONS:
        pieces.append(NO_TAGS)
    answer_writer(key, version)(pieces, answer)
    pieces[0] = sum(map(len, pieces)).to_bytes(4, "big")
    return pieces


def _empty(schema: Schema) -> Fields:
    """Return an answer without contents, and with the code of an unsupported version."""
    values = {each.name: _nothing(each) for each in schema.fields}
    return Fields(**{**values, "error_code": ErrorCode.unsupported_version})


def _nothing(field: FieldSchema) -> Any:
    if field.is_array:
        return ()
    if field.inner is not None and not field.is_nullable:
        return _empty(field.inner)
    if field.default is not MISSING:
        return field.default
    if field.is_nullable or field.kafka_type == "uuid":
        return None
    return "" if field.kafka_type in ("string", "bytes") else 0
