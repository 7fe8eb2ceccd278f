"""Convert columns to values for JSON, which `fitting.py` reads back equal.

This converts a column at a time, since Python is slow a value at a time, and passes most types
unchanged. A value without a form in JSON, such as a date in the year 12000, makes its row wrong and
no other.

Times are in UTC with six digits after the point, whatever the session's zone, so that their texts
sort like the times. Decimals are numbers as long as the store keeps all their digits: it knows
doubles and whole numbers of 64 bits.
"""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

DIGITS_OF_DOUBLES = 15
"""Number of significant digits that every decimal number keeps as a double."""
_DAYS = (-719_162, 2_932_896)
_MICROS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)
"""First and last microsecond of years 1 to 9999, as date-times in JSON have four-digit years."""


_OURS = orjson.OPT_PASSTHROUGH_DATACLASS
"""Option without which orjson would write Formless as an object."""
_NOT_FINITE = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


@dataclass(frozen=True, slots=True)
class Formless:
    """A value that has no form in JSON."""

    why: str


class _NoForm(Exception):
    """A value without a form was met."""


def objects(
    batch: pa.RecordBatch, names: Sequence[str], *, nulls: bool = False, words: bool = True
) -> Iterator[tuple[bytes, str]]:
    """Yield each row as a JSON object, and the reason why it has none ("" if it has one).

    nulls: whether to keep null members. words: whether to write NaN and the infinities as texts;
    otherwise a row with one of them has no JSON.
    """
    columns = [values(batch.column(name), name, words=words) for name in names]
    rows = zip(*columns, strict=True) if columns else iter([()] * batch.num_rows)
    for row in rows:
        kept = dict(zip(names, row, strict=True))
        if not nulls and None in row:
            kept = {name: value for name, value in kept.items() if value is not None}
        try:
            yield orjson.dumps(kept, default=_refuse, option=_OURS), ""
        except orjson.JSONEncodeError as error:
            yield b"", str(error.__cause__ or error)


def values(array: pa.Array, name: str, *, words: bool = True) -> list[Any]:
    """Return for each value the Python value that orjson writes as its JSON; None for null.

    name: that of the column, for messages. words: as in `objects`. A value without a form is
    Formless.
    """
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _strings(array, name)
    if pa.types.is_floating(kind):
        return _floats(array, name, words=words)
    if pa.types.is_date32(kind):
        texts = array.cast(pa.string()).to_pylist()
        return _within(texts, array.cast(pa.int32()), _DAYS, name)
    if pa.types.is_timestamp(kind):
        return _times(array, name)
    if pa.types.is_decimal(kind):
        return [None if each is None else _number(each) for each in array.to_pylist()]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [None if v is None else base64.b64encode(v).decode() for v in array.to_pylist()]
    if pa.types.is_map(kind):
        return _maps(array, name, words=words)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _parts(array, values(_under(array, array.values), f"{name}[]", words=words))
    if pa.types.is_struct(kind):
        return _structs(array, name, words=words)
    return list(array.to_pylist())


def texts(array: pa.Array, name: str) -> list[Any]:
    """Return each value as a text, for a link or the name of a member."""
    if pa.types.is_decimal(array.type):
        return [None if each is None else f"{each:f}" for each in array.to_pylist()]
    found = values(array, name)
    if pa.types.is_string(array.type):
        return found
    return [v if isinstance(v, str | Formless | None) else orjson.dumps(v).decode() for v in found]


def _refuse(value: Any) -> Any:
    raise _NoForm(value.why)


def _strings(array: pa.Array, name: str) -> list[Any]:
    try:
        return list(array.to_pylist())
    except UnicodeDecodeError:  # Spark casts any bytes to a string, but Arrow's strings are UTF-8.
        return [_string(each, name) for each in array.cast(pa.binary()).to_pylist()]


def _string(value: bytes | None, name: str) -> Any:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return Formless(f"{name} is not UTF-8")


def _floats(array: pa.Array, name: str, *, words: bool) -> list[Any]:
    found = array.cast(pa.float64()).to_pylist()
    if pc.all(pc.is_finite(array)).as_py() is not False:
        return list(found)
    # Texts as in Spark's own JSON, where NaN and the infinities are not numbers.
    said = _NOT_FINITE if words else {
        text: Formless(f"{name} is {word}, which has no form in JSON")
        for text, word in _NOT_FINITE.items()
    }  # fmt: skip
    return [said.get(str(each), each) for each in found]


def _times(array: pa.Array, name: str) -> list[Any]:
    """Format times from their microseconds, so that the rules of time zones do not matter."""
    assert array.type.unit == "us"
    micros = array.cast(pa.int64())
    said = pc.replace_substring(micros.cast(pa.timestamp("us")).cast(pa.string()), " ", "T")
    if array.type.tz is not None:
        said = pc.binary_join_element_wise(said, "Z", "")
    return _within(said.to_pylist(), micros, _MICROS, name)


def _within(
    texts: list[str | None], numbers: pa.Array, bounds: tuple[int, int], name: str
) -> list[Any]:
    low, high = bounds
    least, most = pc.min_max(numbers).as_py().values()
    if least is None or low <= least <= most <= high:
        return texts
    no_year = Formless(f"{name} is outside of the years 1 to 9999")
    return [
        text if number is None or low <= number <= high else no_year
        for text, number in zip(texts, numbers.to_pylist(), strict=True)
    ]


def _number(value: Decimal) -> Any:
    """Return a number if the store keeps it exactly, else a text with all its digits."""
    text = f"{value:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    if "." in text:
        digits = text.lstrip("-0.").replace(".", "")
        return orjson.Fragment(text) if len(digits) <= DIGITS_OF_DOUBLES else text
    return orjson.Fragment(text) if -(1 << 63) <= int(text) < 1 << 63 else text


def _structs(array: pa.Array, name: str, *, words: bool) -> list[Any]:
    names = [field.name for field in array.type]
    if not names:
        return list(array.to_pylist())
    parts = zip(names, array.flatten(), strict=True)
    columns = [values(part, f"{name}.{member}", words=words) for member, part in parts]
    return [
        dict(zip(names, row, strict=True)) if valid else None
        for valid, row in zip(_valid(array), zip(*columns, strict=True), strict=True)
    ]


def _maps(array: pa.Array, name: str, *, words: bool) -> list[Any]:
    keys = _parts(array, texts(_under(array, array.keys), f"{name}[]"))
    items = _parts(array, values(_under(array, array.items), f"{name}[]", words=words))
    return [
        None if names is None else _object(names, members, name)
        for names, members in zip(keys, items, strict=True)
    ]


def _object(names: Sequence[Any], members: Sequence[Any], name: str) -> Any:
    wrong = next((each for each in names if isinstance(each, Formless)), None)
    found = dict(zip(names, members, strict=True))
    if len(found) < len(names):
        wrong = Formless(f"{name} has one key twice")
    return wrong or found


def _under(array: pa.Array, inner: pa.Array) -> pa.Array:
    """Return the inner values that belong to these lists."""
    first, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return inner.slice(first, end - first)


def _parts(array: pa.Array, flat: Sequence[Any]) -> list[Any]:
    """Return for each list its part of the flat values, None for null."""
    offsets = array.offsets.to_pylist()
    first = offsets[0]
    return [
        list(flat[begin - first : end - first]) if valid else None
        for valid, begin, end in zip(_valid(array), offsets, offsets[1:], strict=False)
    ]


def _valid(array: pa.Array) -> list[bool]:
    return list(array.is_valid().to_pylist())
