"""Columns into what JSON says of their values, so that `fitting.py` reads back equal ones.

A column at a time, since Python is slow a value at a time: most types go through as they are.
A value that has no form, such as a date of the year 12000, takes its row along and no other.

Times are in UTC with six digits behind the point, whatever the session's zone, so that their texts
stand in the order of the times. Decimals are numbers while the store keeps all their digits: it
knows doubles and whole numbers of 64 bits.
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
"""As many significant digits as any decimal number keeps on its way through a double."""
_DAYS = (-719_162, 2_932_896)
_MICROS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)
"""From the year 1 to the end of 9999: JSON's date-times have years of four digits."""


_OURS = orjson.OPT_PASSTHROUGH_DATACLASS
"""Else orjson would write out what stands for a value that has no form."""
_NOT_FINITE = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


@dataclass(frozen=True, slots=True)
class Formless:
    """Stands for a value that JSON cannot say."""

    why: str


class _NoForm(Exception):
    """Met a value that has no form."""


def objects(
    batch: pa.RecordBatch, names: Sequence[str], *, nulls: bool = False, words: bool = True
) -> Iterator[tuple[bytes, str]]:
    """Yield the JSON object of each row's columns, and why there is none, "" where there is one.

    nulls: keep what is null, which is left out otherwise. words: for NaN and the infinities, which
    have no form otherwise.
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
    """Return what orjson makes the JSON form of each value of; null is None.

    name: of the column, for messages. words: for NaN and the infinities. What has no form is
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
    """Return the text that stands for each value where only a text can: in a link, as a key."""
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
    except UnicodeDecodeError:  # Spark casts any bytes to a string; to Arrow all strings are UTF-8.
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
    # The words of Spark's own JSON: NaN and infinities are no numbers there.
    said = _NOT_FINITE if words else {
        text: Formless(f"{name} is {word}, which JSON cannot say")
        for text, word in _NOT_FINITE.items()
    }  # fmt: skip
    return [said.get(str(each), each) for each in found]


def _times(array: pa.Array, name: str) -> list[Any]:
    """Return times from their microseconds: no zone has a say, nor how its clocks were long ago."""
    assert array.type.unit == "us"
    micros = array.cast(pa.int64())
    said = pc.replace_substring(micros.cast(pa.timestamp("us")).cast(pa.string()), " ", "T")
    if array.type.tz is not None:
        said = pc.binary_join_element_wise(said, "Z", "")
    return _within(said.to_pylist(), micros, _MICROS, name)


def _within(
    texts: list[str | None], numbers: pa.Array, bounds: tuple[int, int], name: str
) -> list[Any]:
    """Return the texts of those numbers that are within bounds."""
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
    """Return a number where the store keeps it exactly, else a text with all its digits."""
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
    """Return what belongs to these lists of all that their array has."""
    first, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return inner.slice(first, end - first)


def _parts(array: pa.Array, flat: Sequence[Any]) -> list[Any]:
    """Return the part of each list, None for those that are null."""
    offsets = array.offsets.to_pylist()
    first = offsets[0]
    return [
        list(flat[begin - first : end - first]) if valid else None
        for valid, begin, end in zip(_valid(array), offsets, offsets[1:], strict=False)
    ]


def _valid(array: pa.Array) -> list[bool]:
    return list(array.is_valid().to_pylist())
