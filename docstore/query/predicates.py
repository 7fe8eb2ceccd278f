"""The constructs of conditions: each one with its SQL and its result in Python.

A comparison with a member that is missing, null or of another type is unknown, as in SQL; `IsTrue`
turns that to false. The functions that make comparisons raise Unfit for one that can never be true;
the parser adds the position.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import Any

from docstore.query.columns import Column
from docstore.query.condition import Literal, Predicate, Sql, Truth, Unfit
from docstore.query.functions import Operand
from docstore.query.members import MemberPath
from docstore.query.moments import Moment

SQL_MAX = 1 << 19
"""Maximum characters of SQL: an odd name inside another one takes a thousand."""
NESTING_MAX = 20
"""Maximum nested brackets in SQL: SQLite's parser has a stack of 100 entries until 3.46."""
AT_ONCE = 16
"""Maximum operands of one AND or OR: SQLite's expressions are at most 1,000 deep."""

_SIGNS = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Comparison(Predicate):
    """A comparison with a literal. sign: an operator of SQL."""

    operand: Operand
    sign: str
    literal: Literal

    def sql(self) -> Sql:
        text, parameters = self.operand.typed(self.literal)
        return Sql(f"({text} {self.sign} ?)", (*parameters, _bound(self.literal)))

    def holds(self, scope: Any) -> Truth:
        value = self.operand.value_for(scope, self.literal)
        return None if value is None else bool(_SIGNS[self.sign](value, _bound(self.literal)))

    @property
    def links(self) -> frozenset[str] | None:
        is_one = self.operand.is_link and self.sign == "="
        return frozenset({str(self.literal)}) if is_one else None


@dataclass(frozen=True, slots=True)
class In(Predicate):
    """The condition that a value is one of some literals of one type."""

    operand: Operand
    literals: tuple[Literal, ...]

    def sql(self) -> Sql:
        text, parameters = self.operand.typed(self.literals[0])
        marks = ", ".join("?" * len(self.literals))
        return Sql(f"({text} IN ({marks}))", (*parameters, *map(_bound, self.literals)))

    def holds(self, scope: Any) -> Truth:
        value = self.operand.value_for(scope, self.literals[0])
        return None if value is None else value in map(_bound, self.literals)

    @property
    def links(self) -> frozenset[str] | None:
        return frozenset(map(str, self.literals)) if self.operand.is_link else None


@dataclass(frozen=True, slots=True)
class Like(Predicate):
    """The condition that a text consists of these pieces, with any text between them."""

    operand: Operand
    pieces: tuple[str, ...]

    def sql(self) -> Sql:
        text, parameters = self.operand.typed("")
        first, *between, last = self.pieces
        if not between and not last:
            return Sql(f"(substr({text}, 1, ?) = ?)", (*parameters, len(first), first))
        if not between and not first:
            return Sql(f"(substr({text}, ?) = ?)", (*parameters, -len(last), last))
        if len(between) == 1 and not first and not last:
            return Sql(f"(instr({text}, ?) > 0)", (*parameters, between[0]))
        return Sql(f"({text} GLOB ?)", (*parameters, _pattern_of(self.pieces)))

    def holds(self, scope: Any) -> Truth:
        value = self.operand.value_for(scope, "")
        return None if value is None else _resembles(value, self.pieces)

    @property
    def prefix(self) -> str:
        return self.pieces[0] if self.operand.is_link else ""


@dataclass(frozen=True, slots=True)
class IsNull(Predicate):
    """The condition that a value is null or missing, which are equal as in Spark."""

    operand: MemberPath | Column
    negated: bool

    def sql(self) -> Sql:
        operand = self.operand
        if isinstance(operand, MemberPath):
            sign = "<>" if self.negated else "="
            return Sql(f"(coalesce({operand.kind}, 'null') {sign} 'null')", operand.parameters)
        if operand.nullable:
            return Sql(f"({operand.sql} IS {'NOT ' if self.negated else ''}NULL)")
        return Sql(f"({int(self.negated)})")

    def holds(self, scope: Any) -> Truth:
        return (self.operand.found(scope) is None) != self.negated


@dataclass(frozen=True, slots=True)
class Elements(Predicate):
    """The condition that any element of an array fulfils a condition, or that all of them do.

    If the member is not an array, the result is unknown.
    """

    member: MemberPath
    inner: Predicate
    all_of_them: bool = False

    def sql(self) -> Sql:
        member, (inner, parameters) = self.member, self.inner.sql()
        source = f"SELECT 1 FROM json_each({member.value}) e{member.level + 1} WHERE {inner}"  # noqa: S608
        found = f"NOT EXISTS ({source} IS NOT TRUE)" if self.all_of_them else f"EXISTS ({source})"
        sql = f"(CASE WHEN {member.kind} = 'array' THEN {found} END)"
        return Sql(sql, (*member.parameters * 2, *parameters))

    def holds(self, scope: Any) -> Truth:
        value = self.member.found(scope)
        if not isinstance(value, list):
            return None
        results = (self.inner.holds(each) is True for each in value)
        return all(results) if self.all_of_them else any(results)


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """The condition that all parts are true."""

    parts: tuple[Predicate, ...]

    def sql(self) -> Sql:
        return _joined("AND", self.parts) if self.parts else Sql("1")

    def holds(self, scope: Any) -> Truth:
        results = [each.holds(scope) for each in self.parts]
        return False if False in results else None if None in results else True

    @property
    def links(self) -> frozenset[str] | None:
        sets = [each.links for each in self.parts if each.links is not None]
        return frozenset.intersection(*sets) if sets else None

    @property
    def prefix(self) -> str:
        return max((each.prefix for each in self.parts), key=len, default="")


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """The condition that one part is true."""

    parts: tuple[Predicate, ...]

    def sql(self) -> Sql:
        return _joined("OR", self.parts)

    def holds(self, scope: Any) -> Truth:
        results = [each.holds(scope) for each in self.parts]
        return True if True in results else None if None in results else False

    @property
    def links(self) -> frozenset[str] | None:
        return reduce(_united, [each.links for each in self.parts])

    @property
    def prefix(self) -> str:
        return reduce(_common, [each.prefix for each in self.parts])


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """The negation of a condition; unknown stays unknown."""

    inner: Predicate

    def sql(self) -> Sql:
        text, parameters = self.inner.sql()
        return Sql(f"(NOT {text})", parameters)

    def holds(self, scope: Any) -> Truth:
        found = self.inner.holds(scope)
        return None if found is None else not found


@dataclass(frozen=True, slots=True)
class IsTrue(Predicate):
    """A condition that is false where another one is unknown."""

    inner: Predicate

    def sql(self) -> Sql:
        text, parameters = self.inner.sql()
        return Sql(f"({text} IS TRUE)", parameters)

    def holds(self, scope: Any) -> Truth:
        return self.inner.holds(scope) is True

    @property
    def links(self) -> frozenset[str] | None:
        return self.inner.links

    @property
    def prefix(self) -> str:
        return self.inner.prefix


def compared(operand: Operand, sign: str, literal: Literal) -> Predicate:
    return Comparison(operand, sign, operand.fitted(literal))


def among(operand: Operand, literals: Sequence[Literal]) -> Predicate:
    fitted = [operand.fitted(each) for each in literals]
    alike: dict[type, list[Literal]] = {}
    for each in fitted:
        alike.setdefault(int if type(each) is float else type(each), []).append(each)
    return either([In(operand, tuple(some)) for some in alike.values()])


def resembles(operand: Operand, pieces: Sequence[str]) -> Predicate:
    """Return the condition that a text consists of these pieces, with any text between them."""
    if not operand.is_text:
        raise Unfit("the comparison must be with a string in single quotes")
    return Like(operand, tuple(pieces))


def every(parts: Sequence[Predicate]) -> Predicate:
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def either(parts: Sequence[Predicate]) -> Predicate:
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def opposite(one: Predicate) -> Predicate:
    """Negate a condition. Two negations cancel each other, also for unknown."""
    return one.inner if isinstance(one, Not) else Not(one)


def excess(sql: str) -> str:
    """Return why a condition is too large for SQLite, "" if it is not."""
    if len(sql) > SQL_MAX:
        return "too many names, or names that are too long, in one condition"
    steps = ({"(": 1, ")": -1}.get(character, 0) for character in sql)
    is_nested = max(accumulate(steps), default=0) > NESTING_MAX
    return "the condition is nested too deeply" if is_nested else ""


def _bound(literal: Literal) -> str | int | float | bool:
    return literal.micros if isinstance(literal, Moment) else literal


def _pattern_of(pieces: Sequence[str]) -> str:
    """Return the pattern of SQLite's GLOB for these pieces with any text between."""
    return "*".join("".join(f"[{c}]" if c in "*?[" else c for c in piece) for piece in pieces)


def _resembles(value: str, pieces: Sequence[str]) -> bool:
    first, *between, last = pieces
    at, end = len(first), len(value) - len(last)
    if at > end or not value.startswith(first) or not value.endswith(last):
        return False
    for piece in between:
        found = value.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _joined(word: str, parts: Sequence[Predicate]) -> Sql:
    made = [each.sql() for each in parts]
    parameters = tuple(value for each in made for value in each.parameters)
    return Sql(_tree(word, [each.text for each in made]), parameters)


def _tree(word: str, parts: Sequence[str]) -> str:
    """Join parts by a word, as a tree with AT_ONCE branches per node."""
    while len(parts) > AT_ONCE:
        rows = [parts[at : at + AT_ONCE] for at in range(0, len(parts), AT_ONCE)]
        parts = [_tree(word, row) for row in rows]
    return f"({f' {word} '.join(parts)})"


def _united(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return None if one is None or other is None else one | other


def _common(one: str, other: str) -> str:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return one[:length]
