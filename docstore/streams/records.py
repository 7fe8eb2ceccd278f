"""Records inside a batch, and their forms at the interface: msgpack, JSON, NDJSON.

The body of a batch is records one after the other, each the msgpack of `[key, value, headers,
time]`: key nil or bytes (text of clients, as UTF-8), value bytes or nil (a tombstone), headers nil
or a list of [name, bytes], time nil or the client's microseconds since 1970. A body that a client
sends as msgpack is checked once and stored unchanged; its keys may also be texts. In a body with
missing records, each has a fifth element: its offset from the beginning of the batch.

The check is strict, since other clients read the stored records: it rejects other shapes, a header
that occurs twice, and an incomplete record at the end. It raises a ValueError that names the
record, counted from 0, or the line, counted from 1.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import msgpack

from docstore.errors import BadRequest
from docstore.model import json
from docstore.model.settings import quoted

KEY_BYTES_MAX = 1 << 16
"""Greatest size of a key in bytes."""
HEADERS_MAX = 64
NAME_BYTES_MAX = 255
TIME_MAX = (1 << 63) - 1
PARTITION_MAX = 1 << 16

_EXCEEDS = re.compile(r"([0-9]+) exceeds max_([a-z]+)_len\(([0-9]+)\)")
_KINDS = {
    "array": "array", "bin": "byte string", "ext": "extension type", "map": "map", "str": "text",
}  # fmt: skip
_MEMBERS = frozenset({"key", "value", "tombstone", "headers", "partition"})


class Record(NamedTuple):
    """One record as it was written.

    value: None for a tombstone, which deletes its key. headers: those of Kafka may repeat a name
    and have no content.
    """

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    client_us: int | None = None


class Posted(NamedTuple):
    """A record of a client's JSON, packed.

    Its partition is the one that the client has given, or else follows from its key.
    """

    key: bytes | None
    partition: int | None
    packed: bytes


def pack(record: Record) -> bytes:
    """Return the packed record, as in the body of a batch."""
    key, value, headers, client_us = record
    return cast("bytes", msgpack.packb((key, value, headers or None, client_us)))


def unpacked(body: bytes) -> Iterator[Record]:
    """Yield the records of a body that was checked before."""
    for key, value, headers, client_us in _unpacker(body):
        yield Record(key.encode() if type(key) is str else key, value, headers or (), client_us)


def sparse(records: Iterable[tuple[int, Record]]) -> bytes:
    """Return the body of these records, each with its offset from the beginning of the batch."""
    pack_one = msgpack.Packer().pack
    return b"".join(
        [
            pack_one((key, value, headers or None, client_us, delta))
            for delta, (key, value, headers, client_us) in records
        ]
    )


def unpacked_sparse(body: bytes) -> Iterator[tuple[int, Record]]:
    """Reverse `sparse`."""
    for key, value, headers, client_us, delta in _unpacker(body):
        yield delta, Record(key, value, headers or (), client_us)


def keyed(body: bytes) -> Iterator[tuple[bytes | None, bytes]]:
    """Yield (key, packed record) for each record of a body that was checked before."""
    unpacker = _unpacker(body)
    begin = 0
    for key, *_ in unpacker:
        end = unpacker.tell()
        yield key.encode() if type(key) is str else key, body[begin:end]
        begin = end


def checked(body: bytes) -> int:
    """Check a body that a client has sent, and return its number of records. Raises ValueError."""
    unpacker = _unpacker(body)
    number = end = 0
    try:
        for record in unpacker:
            _check(record)
            number += 1
            end = unpacker.tell()  # Once a record is incomplete, `tell` also counts its bytes.
    except ValueError as error:
        raise ValueError(f"record {number}: {why_not_msgpack(error)}") from None
    if end != len(body):
        raise ValueError(f"record {number}: the body ends inside this record; send it whole")
    return number


def why_not_msgpack(error: Exception) -> str:
    """Return a description of why msgpack rejects a client's bytes."""
    found = _EXCEEDS.match(str(error))
    if found is not None:
        what = _KINDS[found[2]]
        return f"no {what} is taken" if found[3] == "0" else f"{what} has at most {found[3]}"
    if isinstance(error, UnicodeDecodeError):
        return "a text is not UTF-8"
    if isinstance(error, msgpack.StackError):
        return "it is nested too deep"
    if "map key" in str(error):
        return "the name of a member is not a text"
    return str(error) or "it is not msgpack"


def _unpacker(body: bytes) -> Any:
    # A few bytes can claim a large size: bounds what is allocated before it is checked.
    unpacker = msgpack.Unpacker(
        use_list=False,
        max_buffer_size=len(body) or 1,
        max_str_len=KEY_BYTES_MAX,
        max_array_len=HEADERS_MAX,
        max_map_len=HEADERS_MAX,
        max_ext_len=0,
    )
    unpacker.feed(body)
    return unpacker


def _check(record: Any) -> None:
    """Raise ValueError unless this is a record."""
    if type(record) is not tuple or len(record) != 4:
        raise ValueError("a record must be [key, value, headers, time]")
    key, value, headers, client_us = record
    if key is not None and type(key) is not bytes and type(key) is not str:
        raise ValueError(f"`key` must be bytes, a string or nil; got {quoted(key)}")
    if key is not None and len(key) > KEY_BYTES_MAX:
        raise ValueError(f"key must have at most {KEY_BYTES_MAX} bytes; got {len(key)}")
    if value is not None and type(value) is not bytes:
        raise ValueError(f"`value` must be bytes, or nil for a tombstone; got {quoted(value)}")
    if headers is not None:
        _check_headers(headers)
    if client_us is not None and not (type(client_us) is int and 0 <= client_us <= TIME_MAX):
        raise ValueError(f"`time` must be microseconds since 1970; got {quoted(client_us)}")


def _check_headers(headers: Any) -> None:
    if type(headers) is not tuple:
        raise ValueError(f"headers must be a list of [name, bytes]; got {quoted(headers)}")
    for header in headers:
        if type(header) is not tuple or [type(each) for each in header] != [str, bytes]:
            raise ValueError("each of headers must be [name, bytes]")
    _check_names([name for name, _ in headers])


def _check_names(names: Sequence[str]) -> None:
    if len(names) > HEADERS_MAX:
        raise ValueError(f"headers must be at most {HEADERS_MAX}; got {len(names)}")
    for name in names:
        if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
            raise ValueError(
                f"the name of a header must have 1 to {NAME_BYTES_MAX} bytes; got {quoted(name)}"
            )
    if len(set(names)) < len(names):
        raise ValueError("headers must have different names")


def from_json(value: object) -> Posted:
    """Return a record posted as {"key", "value" or "tombstone", "headers", "partition"}.

    Only the value is required; it may be any JSON. `"tombstone": true` stands for no value. key: a
    text. headers: name -> text.
    """
    if not isinstance(value, dict):
        raise ValueError(f"a record must be a JSON object; got {quoted(value)}")  # noqa: TRY004 - one kind for all
    if not _MEMBERS.issuperset(value):
        unknown = next(name for name in value if name not in _MEMBERS)
        raise ValueError(f"a record must not have the member {unknown[:80]!r}")
    if value.get("tombstone", True) is not True or ("value" in value) == ("tombstone" in value):
        raise ValueError('`value` must be given, or `"tombstone": true` in its place')
    key, headers, partition = value.get("key"), value.get("headers"), value.get("partition")
    if key is not None:
        if type(key) is not str:
            raise ValueError(f"`key` must be a string; got {quoted(key)}")
        key = key.encode()
        if len(key) > KEY_BYTES_MAX:
            raise ValueError(f"key must have at most {KEY_BYTES_MAX} bytes; got {len(key)}")
    if partition is not None and not (type(partition) is int and 0 <= partition < PARTITION_MAX):
        raise ValueError(f"`partition` must be a whole number, 0 or more; got {quoted(partition)}")
    pairs = _headers_from(headers) if headers else None
    raw = json.dump(value["value"]) if "value" in value else None
    packed = msgpack.packb((key, raw, pairs, None))
    return Posted(key, partition, packed)


def _headers_from(headers: object) -> list[tuple[str, bytes]]:
    if not isinstance(headers, dict) or not all(type(text) is str for text in headers.values()):
        raise ValueError("`headers` must be an object of strings")
    _check_names(list(headers))
    return [(name, text.encode()) for name, text in headers.items()]


def from_lines(body: bytes) -> list[Posted]:
    """Return the records of NDJSON, each as in `from_json`; skip empty lines."""
    posted: list[Posted] = []
    number = 0
    try:
        for number, line in enumerate(body.split(b"\n"), 1):  # noqa: B007 - told by the error
            if line and not line.isspace():
                posted.append(from_json(json.parse(line)))
    except (ValueError, BadRequest) as error:
        raise ValueError(f"line {number}: {error}") from None
    return posted


def shown(offset: int, record: Record, at_us: int, *, is_json: bool) -> dict[str, object]:
    """Return a record as JSON answers show it, for `json.dump`.

    at_us: time of its batch, shown unless the client has set a time. is_json: whether the value is
    known to be JSON. A value that is not JSON is shown in base64 under another name, as are a key
    and headers that are not UTF-8. A header that repeats is shown as the list of its contents.
    """
    key, value, headers, client_us = record
    shape: dict[str, object] = {"offset": offset}
    text = None if key is None else _text(key)
    if key is not None and text is None:
        shape["keyBase64"] = b64encode(key).decode()
    else:
        shape["key"] = text
    if value is None:
        shape["tombstone"] = True
    elif is_json or _is_json(value):
        shape["value"] = json.Fragment(value)
    else:
        shape["valueBase64"] = b64encode(value).decode()
    shape |= _shown_headers(headers) if headers else {"headers": {}}
    shape["timestampMicros"] = at_us if client_us is None else client_us
    return shape


def _shown_headers(headers: Sequence[tuple[str, bytes | None]]) -> dict[str, object]:
    contents: dict[str, list[bytes | None]] = {}
    for name, content in headers:
        contents.setdefault(name, []).append(content)
    texts: dict[str, object] = {}
    binary: dict[str, object] = {}
    for name, each in contents.items():
        try:
            texts[name] = _one_or_all([None if raw is None else raw.decode() for raw in each])
        except UnicodeDecodeError:
            binary[name] = _one_or_all(
                [None if raw is None else b64encode(raw).decode() for raw in each]
            )
    return {"headers": texts, "headersBase64": binary} if binary else {"headers": texts}


def _one_or_all(contents: Sequence[object]) -> object:
    return contents[0] if len(contents) == 1 else contents


def _text(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _is_json(value: bytes) -> bool:
    try:
        json.load(value)
    except ValueError:
        return False
    return True
