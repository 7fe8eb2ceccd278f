"""Predicates and their combinations in SQL, for both languages of conditions.

`where.py` (SQL's words) and `filter.py` (OData's) write the same conditions. A comparison with a
member that is missing, null or of another type is unknown, as in SQL; `known` turns that to false.
A comparison that can never be true raises Unfit, to which the parser adds the position.
"""

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate

from docstore.query.condition import Condition, Literal, Unfit
from docstore.query.operands import Operand

SQL_MAX = 1 << 19
"""Maximum characters of SQL: an odd name inside another one takes a thousand."""
NESTING_MAX = 20
"""Maximum nested brackets in SQL: SQLite's parser has a stack of 100 entries until 3.46."""
AT_ONCE = 16
"""Maximum operands of one AND or OR: SQLite's expressions are at most 1,000 deep."""


def compared(operand: Operand, sign: str, literal: Literal) -> Condition:
    """Return a comparison with a literal. sign: an operator of SQL. Raises Unfit."""
    literal = operand.fitted(literal)
    sql, parameters = operand.typed(literal)
    links = None
    if operand.is_link and sign == "=":
        links = frozenset({str(literal)})
    return Condition(f"({sql} {sign} ?)", (*parameters, literal), links)


def among(operand: Operand, literals: Sequence[Literal]) -> Condition:
    """Return the condition that a value is one of the literals. Raises Unfit."""
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
    sql, parameters = _text(operand)
    is_link = operand.is_link
    return Condition(
        f"(substr({sql}, 1, ?) = ?)",
        (*parameters, len(prefix), prefix),
        prefix=prefix if is_link else "",
    )


def ends(operand: Operand, suffix: str) -> Condition:
    sql, parameters = _text(operand)
    if not suffix:  # For SQLite the last 0 characters are the whole text.
        return Condition(f"(length({sql}) >= ?)", (*parameters, 0))
    return Condition(f"(substr({sql}, ?) = ?)", (*parameters, -len(suffix), suffix))


def holds(operand: Operand, part: str) -> Condition:
    sql, parameters = _text(operand)
    return Condition(f"(instr({sql}, ?) > 0)", (*parameters, part))


def resembles(operand: Operand, pieces: Sequence[str]) -> Condition:
    """Return the condition that a text is these pieces, with any text between. Raises Unfit."""
    first, *between, last = pieces
    if not between and not last:
        return begins(operand, first)
    sql, parameters = _text(operand)
    pattern = pattern_of(pieces)
    prefix = first if operand.is_link else ""
    return Condition(f"({sql} GLOB ?)", (*parameters, pattern), prefix=prefix)


def pattern_of(pieces: Sequence[str]) -> str:
    """Return the pattern of SQLite's GLOB for these pieces with any text between."""
    return "*".join("".join(f"[{c}]" if c in "*?[" else c for c in piece) for piece in pieces)


def _text(operand: Operand) -> tuple[str, tuple[object, ...]]:
    if not operand.is_text:
        raise Unfit("the comparison must be with a string in single quotes")
    return operand.typed("")


def every(parts: Sequence[Condition]) -> Condition:
    sets = [each.links for each in parts if each.links is not None]
    links = frozenset.intersection(*sets) if sets else None
    return _joined("AND", parts, links, max((each.prefix for each in parts), key=len))


def either(parts: Sequence[Condition]) -> Condition:
    links = reduce(_united, [each.links for each in parts])
    return _joined("OR", parts, links, reduce(_common, [each.prefix for each in parts]))


def opposite(one: Condition) -> Condition:
    """Negate a condition; unknown stays unknown."""
    return Condition(f"(NOT {one.sql})", one.parameters)


def known(one: Condition) -> Condition:
    """Return a condition that is false where it was unknown."""
    return Condition(f"({one.sql} IS TRUE)", one.parameters, one.links, one.prefix)


def excess(condition: Condition) -> str:
    """Return why a condition is too large for SQLite, "" if it is not."""
    if len(condition.sql) > SQL_MAX:
        return "too many names, or names that are too long, in one condition"
    steps = ({"(": 1, ")": -1}.get(character, 0) for character in condition.sql)
    is_nested = max(accumulate(steps), default=0) > NESTING_MAX
    return "the condition is nested too deeply" if is_nested else ""


def _joined(
    word: str, parts: Sequence[Condition], links: frozenset[str] | None, prefix: str
) -> Condition:
    if len(parts) == 1:
        return parts[0]
    parameters = tuple(value for each in parts for value in each.parameters)
    return Condition(_tree(word, [each.sql for each in parts]), parameters, links, prefix)


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
