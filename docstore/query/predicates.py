"""Predicates and how they are joined, in SQL: what every language of conditions is made of.

`where.py` (SQL's words) and `filter.py` (OData's) are two ways to write the same conditions. A
comparison with a member that is missing, null or of another type is unknown, as in SQL; `known`
makes false of that. What a value can never be compared with is `Unfit`: the language says where.
"""

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate

from docstore.query.condition import Condition, Literal, Unfit
from docstore.query.operands import Operand

SQL_MAX = 1 << 19
"""Characters: a name that must be looked up, inside of another one, takes a thousand."""
NESTING_MAX = 20
"""Brackets inside of each other in SQL: SQLite's parser has a stack of 100 entries until 3.46."""
AT_ONCE = 16
"""Parts in a row: few enough for SQLite, whose expressions are at most 1,000 deep."""


def compared(operand: Operand, sign: str, literal: Literal) -> Condition:
    """Say how a value compares. sign: one of SQL's. Raises Unfit."""
    literal = operand.fitted(literal)
    sql, parameters = operand.typed(literal)
    links = None
    if operand.is_link and sign == "=":
        links = frozenset({str(literal)})
    return Condition(f"({sql} {sign} ?)", (*parameters, literal), links)


def among(operand: Operand, literals: Sequence[Literal]) -> Condition:
    """Say that a value is one of some; those of one type in one list. Raises Unfit."""
    found: list[Condition] = []
    literals = [operand.fitted(each) for each in literals]
    for kind in (str, bool, int | float):
        alike = [each for each in literals if isinstance(each, kind)]
        if kind is not bool:
            alike = [each for each in alike if not isinstance(each, bool)]
        if not alike:
            continue
        sql, parameters = operand.typed(alike[0])
        marks = ", ".join("?" * len(alike))
        links = frozenset(map(str, alike)) if operand.is_link else None
        found.append(Condition(f"({sql} IN ({marks}))", (*parameters, *alike), links))
    return either(found)


def begins(operand: Operand, prefix: str) -> Condition:
    """Say that a text begins so. Raises Unfit."""
    sql, parameters = _text(operand)
    is_link = operand.is_link
    return Condition(
        f"(substr({sql}, 1, ?) = ?)",
        (*parameters, len(prefix), prefix),
        prefix=prefix if is_link else "",
    )


def ends(operand: Operand, suffix: str) -> Condition:
    """Say that a text ends so. Raises Unfit."""
    sql, parameters = _text(operand)
    if not suffix:  # Of a text the last 0 characters are all of them to SQLite.
        return Condition(f"(length({sql}) >= ?)", (*parameters, 0))
    return Condition(f"(substr({sql}, ?) = ?)", (*parameters, -len(suffix), suffix))


def holds(operand: Operand, part: str) -> Condition:
    """Say that a text has another one in it. Raises Unfit."""
    sql, parameters = _text(operand)
    return Condition(f"(instr({sql}, ?) > 0)", (*parameters, part))


def resembles(operand: Operand, pieces: Sequence[str]) -> Condition:
    """Say that a text consists of these pieces, with anything between them. Raises Unfit."""
    first, *between, last = pieces
    if not between and not last:
        return begins(operand, first)
    sql, parameters = _text(operand)
    pattern = pattern_of(pieces)
    prefix = first if operand.is_link else ""
    return Condition(f"({sql} GLOB ?)", (*parameters, pattern), prefix=prefix)


def pattern_of(pieces: Sequence[str]) -> str:
    """Return what SQLite's GLOB takes for these pieces, with anything between them."""
    return "*".join("".join(f"[{c}]" if c in "*?[" else c for c in piece) for piece in pieces)


def _text(operand: Operand) -> tuple[str, tuple[object, ...]]:
    if not operand.is_text:
        raise Unfit("this is for texts")
    return operand.typed("")


# Joined


def every(parts: Sequence[Condition]) -> Condition:
    """Say that all of some conditions hold."""
    sets = [each.links for each in parts if each.links is not None]
    links = frozenset.intersection(*sets) if sets else None
    return _joined("AND", parts, links, max((each.prefix for each in parts), key=len))


def either(parts: Sequence[Condition]) -> Condition:
    """Say that one of some conditions holds."""
    links = reduce(_united, [each.links for each in parts])
    return _joined("OR", parts, links, reduce(_common, [each.prefix for each in parts]))


def opposite(one: Condition) -> Condition:
    """Say that a condition does not hold; of what is unknown it is unknown."""
    return Condition(f"(NOT {one.sql})", one.parameters)


def known(one: Condition) -> Condition:
    """Say that a condition holds; what is unknown is false."""
    return Condition(f"({one.sql} IS TRUE)", one.parameters, one.links, one.prefix)


def excess(condition: Condition) -> str:
    """Return why SQLite would not take a condition, or only after a long time; "" if it does."""
    if len(condition.sql) > SQL_MAX:
        return "too many names, or names that are too long, in one condition"
    steps = ({"(": 1, ")": -1}.get(character, 0) for character in condition.sql)
    is_nested = max(accumulate(steps), default=0) > NESTING_MAX
    return "too much inside of each other" if is_nested else ""


def _joined(
    word: str, parts: Sequence[Condition], links: frozenset[str] | None, prefix: str
) -> Condition:
    if len(parts) == 1:
        return parts[0]
    parameters = tuple(value for each in parts for value in each.parameters)
    return Condition(_tree(word, [each.sql for each in parts]), parameters, links, prefix)


def _tree(word: str, parts: Sequence[str]) -> str:
    """Return parts with a word between them, many as a tree that is broad and not deep."""
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
