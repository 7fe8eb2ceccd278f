"""The parser of aggregates, translated to SQL, and the merge of partial results. Pure.

    aggregates  count(*), sum(cast(total as bigint)) as total, max(title), avg(addr.floor)
    group by    status, cast(year as bigint) as year

Names are those of `operands.py`. A value has a type; members of another type are null. bigint and
double take numbers, boolean takes true and false, string takes all (a text unchanged, anything else
as JSON). Without `cast` a member is a double in a function and a string in a key; columns have
their own type. As in SQL, functions ignore null, and null is a group of its own.

Nodes return partial results, one for each group of each page; `Totals` merges them.

Source: SQL:2016, 10.9; partial aggregates are those of Gray et al., Data Cube (1997), section 5:
avg is algebraic (a sum and a count), the others are distributive.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from docstore.query.columns import FLAG, NUMBER, TEXT, Column
from docstore.query.members import MemberPath
from docstore.query.operands import Operand, operand_of
from docstore.query.tokens import Tokens

T = TypeVar("T")

BIGINT, DOUBLE, STRING, BOOLEAN, ANYTHING = "bigint", "double", "string", "boolean", "anything"
TYPES = (BIGINT, DOUBLE, STRING, BOOLEAN)
TERMS_MAX = 32
INT64_MAX = (1 << 63) - 1

PARTIALS = {
    "count": ("count",),
    "sum": ("sum",),
    "min": ("min",),
    "max": ("max",),
    "avg": ("total", "count"),
}
"""Function -> functions of SQLite that nodes compute for it."""

_NUMBERS = (BIGINT, DOUBLE)
TAKES = {
    "count": (*TYPES, ANYTHING),
    "sum": _NUMBERS,
    "min": (*_NUMBERS, STRING),
    "max": (*_NUMBERS, STRING),
    "avg": _NUMBERS,
}
"""Function -> types that it accepts."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a document, in SQL with question marks; NULL if it has another type."""

    name: str
    type: str
    sql: str
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A function of the values of a group. value: None counts documents."""

    name: str
    function: str
    value: Value | None

    @property
    def type(self) -> str:
        if self.value is None or self.function == "count":
            return BIGINT
        return DOUBLE if self.function == "avg" else self.value.type


@dataclass(frozen=True, slots=True)
class Grouping:
    """Keys that form the groups, and functions of each group."""

    keys: tuple[Value, ...]
    aggregates: tuple[Aggregate, ...]

    @property
    def columns(self) -> list[tuple[str, str]]:
        keys = [(each.name, each.type) for each in self.keys]
        return keys + [(each.name, each.type) for each in self.aggregates]

    @property
    def values(self) -> list[Value]:
        """Return the values of each document: the keys, then the arguments of functions."""
        return [*self.keys, *(each.value for each in self.aggregates if each.value is not None)]

    def sql(self, rows: str) -> str:
        """Return the SELECT of keys, count(*) and partial results. rows: a SELECT of values."""
        keys = [f"v{number}" for number in range(len(self.keys))]
        chosen, number = [*keys, "count(*)"], len(keys)
        for each in self.aggregates:
            argument = "*" if each.value is None else f"v{number}"
            number += each.value is not None
            chosen += [f"{function}({argument})" for function in PARTIALS[each.function]]
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {', '.join(chosen)} FROM ({rows}){by}"  # noqa: S608 - our own words


def grouping_of(aggregates: str, group_by: str) -> Grouping | None:
    """Parse both texts; return None if both are empty. Raises BadRequest."""
    if not aggregates.strip() and not group_by.strip():
        return None
    keys = Tokens(group_by, "groupBy")
    functions = Tokens(aggregates, "aggregates")
    grouping = Grouping(tuple(_list(keys, _key)), tuple(_list(functions, _aggregate)))
    names = [name for name, _ in grouping.columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise functions.refusal(f"two columns are named {twice!r}: give one another name with as")
    if len(names) > TERMS_MAX:
        raise functions.refusal(f"there must be at most {TERMS_MAX} columns")
    return grouping


class Totals:
    """The results of all groups, merged from partial ones."""

    def __init__(self, grouping: Grouping) -> None:
        self._grouping = grouping
        self._functions = [each for a in grouping.aggregates for each in PARTIALS[a.function]]
        self.groups: dict[tuple[Any, ...], list[Any]] = {}
        """Keys -> results of the functions so far."""
        self.documents = 0

    def add(self, partial: Sequence[Any]) -> None:
        """Add a partial result: the keys, the number of documents, the results of functions."""
        at = len(self._grouping.keys)
        key, documents, found = tuple(partial[:at]), partial[at], list(partial[at + 1 :])
        self.documents += documents
        if documents:
            self.put(key, found)

    def merge(self, other: "Totals") -> None:
        self.documents += other.documents
        for key, found in other.groups.items():
            self.put(key, found)

    def put(self, key: tuple[Any, ...], found: list[Any]) -> None:
        before = self.groups.get(key)
        if before is not None:
            found = [
                _combined(function, one, other)
                for function, one, other in zip(self._functions, before, found, strict=True)
            ]
        self.groups[key] = found

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the keys and results of each group; without keys exactly one, as in SQL.

        Raises OverflowError when a sum of bigints does not fit into 64 bits.
        """
        groups = self.groups
        if not groups and not self._grouping.keys:
            nothing = [0 if each in ("count", "total") else None for each in self._functions]
            groups = {(): nothing}
        for key, found in groups.items():
            yield (*map(_plain, self._grouping.keys, key), *self._finished(found))

    def _finished(self, found: Sequence[Any]) -> Iterator[Any]:
        left = iter(found)
        for each in self._grouping.aggregates:
            result = next(left)
            if each.function == "avg":
                count = next(left)
                result = result / count if count else None
            if each.type == BIGINT and result is not None and abs(result) > INT64_MAX:
                raise OverflowError(f"{each.name} must fit into 64 bits: cast its member to double")
            yield result


def _combined(function: str, one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    if function in ("min", "max"):
        return min(one, other) if function == "min" else max(one, other)
    return one + other


def _plain(value: Value, found: Any) -> Any:
    """Return a value as Python has it: SQLite has no booleans."""
    return bool(found) if value.type == BOOLEAN and found is not None else found


def _list(tokens: Tokens, term: Callable[[Tokens], T]) -> Iterator[T]:
    while tokens.peek().kind != "end":
        yield term(tokens)
        if not tokens.sign(","):
            tokens.expect_end("a comma")


def _key(tokens: Tokens) -> Value:
    name, operand, type_ = _argument(tokens)
    return _value(tokens, _alias(tokens) or name, operand, type_, STRING)


def _aggregate(tokens: Tokens) -> Aggregate:
    token = tokens.take()
    function = token.text.lower()
    if token.kind != "name" or function not in PARTIALS:
        raise tokens.unexpected(token, f"one of {', '.join(PARTIALS)}")
    if function == "count" and (tokens.peek().kind == "end" or tokens.peek().text == ","):
        return Aggregate("count", function, None)
    tokens.expect("(")
    if function == "count" and tokens.sign("*"):
        tokens.expect(")")
        return Aggregate(_alias(tokens) or "count", function, None)
    name, operand, type_ = _argument(tokens)
    tokens.expect(")")
    name = _alias(tokens) or f"{function}({name})"
    value = _value(tokens, name, operand, type_, ANYTHING if function == "count" else DOUBLE)
    if value.type not in TAKES[function]:
        raise tokens.refusal(f"there is no {function} of a {value.type}")
    return Aggregate(name, function, value)


def _argument(tokens: Tokens) -> tuple[str, Operand, str]:
    """Take an operand with or without a cast; return its name, the operand, and its type or ""."""
    is_cast = tokens.peek().text.lower() == "cast" and tokens.is_called()
    if is_cast:
        tokens.take()
        tokens.expect("(")
    at = tokens.peek().at
    operand = operand_of(tokens)
    name, type_ = tokens.since(at).replace("`", ""), ""
    if is_cast:
        tokens.expect_word("as")
        token = tokens.take()
        type_ = token.text.lower()
        if type_ not in TYPES:
            raise tokens.unexpected(token, f"one of {', '.join(TYPES)}")
        tokens.expect(")")
    return name, operand, type_


def _alias(tokens: Tokens) -> str:
    if not tokens.word("as"):
        return ""
    token = tokens.take()
    if token.kind != "name":
        raise tokens.unexpected(token, "a name")
    return token.text.strip("`")


def _value(tokens: Tokens, name: str, operand: Operand, type_: str, default: str) -> Value:
    if isinstance(operand, Column):
        return _of_column(tokens, name, operand, type_)
    return _of_member(name, operand, type_ or default)


def _of_column(tokens: Tokens, name: str, column: Column, type_: str) -> Value:
    own = {TEXT: STRING, NUMBER: BIGINT, FLAG: BOOLEAN}.get(column.kind)
    if own is None:
        raise tokens.refusal(f"{name} is a time: name {column.name}Micros, which is a number")
    match own, type_ or own:
        case ("string", "string") | ("bigint", "bigint") | ("boolean", "boolean"):
            return Value(name, own, column.sql)
        case ("bigint", "double"):
            return Value(name, DOUBLE, f"CAST({column.sql} AS REAL)")
        case ("bigint", "string"):
            return Value(name, STRING, f"CAST({column.sql} AS TEXT)")
        case _:
            raise tokens.refusal(f"{name}: a {own} cannot be read as {type_}")


def _of_member(name: str, member: MemberPath, type_: str) -> Value:
    kind, found = member.kind, member.value
    match type_:
        case "bigint":
            # SQLite turns numbers beyond 64 bits into reals.
            sql = f"CASE WHEN {kind} = 'integer' AND typeof({found}) = 'integer' THEN {found} END"
        case "double":
            sql = f"CASE WHEN {kind} IN ('integer', 'real') THEN CAST({found} AS REAL) END"
        case "boolean":
            sql = f"CASE {kind} WHEN 'true' THEN 1 WHEN 'false' THEN 0 END"
        case "string":
            sql = (
                f"CASE {kind} WHEN 'text' THEN {found} WHEN 'true' THEN 'true'"
                f" WHEN 'false' THEN 'false' WHEN 'null' THEN NULL ELSE CAST({found} AS TEXT) END"
            )
        case _:
            sql = f"nullif(coalesce({kind}, 'null'), 'null')"
    times = sql.count("?") // len(member.parameters)
    return Value(name, type_, sql, member.parameters * times)
