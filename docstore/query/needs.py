"""The values of members that a condition requires, for the choice of an index. Pure.

Negations and functions of a text need nothing that an index has.
"""

from docstore.query import ranges
from docstore.query.columns import Column
from docstore.query.condition import Predicate
from docstore.query.functions import Operand
from docstore.query.members import MemberPath
from docstore.query.moments import Moment
from docstore.query.predicates import (
    And,
    Comparison,
    Elements,
    In,
    IsNull,
    IsTrue,
    Like,
    Or,
)
from docstore.query.ranges import EACH, TEXT_CHARACTERS, TEXT_RANK, Key, Needs, Range, Ranges


def needs_of(predicate: Predicate, inside: Key = ()) -> Needs:
    """Return ranges outside which a condition cannot be true.

    inside: key of the elements whose members the condition names; () for those of a document.
    """
    match predicate:
        case And(parts):
            return ranges.of_all([needs_of(each, inside) for each in parts])
        case Or(parts):
            return ranges.of_any([needs_of(each, inside) for each in parts])
        case IsTrue(inner):
            return needs_of(inner, inside)
        case Elements(member, inner, False):
            return needs_of(inner, (*inside, *member.steps, EACH))
        case Comparison(operand, sign, literal):
            return _of(operand, _compared(operand, sign, literal), inside)
        case In(operand, literals):
            several = [_compared(operand, "=", each) for each in literals]
            return _of(operand, ranges.united(*several), inside)
        case Like(operand, (first, *_)) if first:
            return _of(operand, ranges.of_prefix(first), inside)
        case IsNull(operand, negated):
            return _of(operand, ranges.PRESENT if negated else ranges.NULL, inside)
        case _:
            return {}


def key_of(operand: Column | MemberPath, inside: Key = ()) -> Key:
    if isinstance(operand, Column):
        return (EACH, operand.name)
    return (*inside, *operand.steps)


def _of(operand: Operand, found: Ranges, inside: Key) -> Needs:
    return {key_of(operand, inside): found} if isinstance(operand, Column | MemberPath) else {}


def _compared(operand: Operand, sign: str, literal: object) -> Ranges:
    is_cut = isinstance(operand, Column) and len(str(literal)) > TEXT_CHARACTERS
    if isinstance(literal, Moment) or is_cut:  # Texts with times; columns, which are whole.
        return (Range(TEXT_RANK),)
    assert isinstance(literal, str | int | float)
    return ranges.of_comparison(sign, literal)
