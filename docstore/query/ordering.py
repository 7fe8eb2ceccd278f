"""The parser of `orderBy`: an order of documents, translated to SQL.

    counter desc, address/city, documentUpdateTime

The order is total, and the same on every replica: missing and null first, then false, true,
numbers, texts, and at last arrays and objects, which are all equal. Documents with equal keys are
in the order of link and version. `desc` reverses a key, missing values included. Texts are compared
by their first 128 code points, as a cursor must not be as long as a document.

A found row is (rank, value, rank, value, ..., link, version, slot), with two members for each key.
Without the slot it is a place in the order, after which a search continues.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from docstore.query.columns import FLAG, TEXT, Column
from docstore.query.members import MemberPath
from docstore.query.needs import key_of
from docstore.query.operands import Operand, operand_of
from docstore.query.ranges import (
    FALSE,
    MISSING,
    NUMBER_RANK,
    TEXT_CHARACTERS,
    TEXT_RANK,
    TRUE,
    WHOLE_RANK,
    Key,
)
from docstore.query.tokens import Members, Tokens

KEYS_MAX = 4

Found = tuple[Any, ...]
"""A found row."""
Place = Sequence[Any]
"""The place of a row in the order."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """A key of an order. rank, value: SQL of the rank of its type, and of the value."""

    key: Key
    rank: str
    value: str
    rank_parameters: tuple[str, ...] = ()
    value_parameters: tuple[str, ...] = ()
    descending: bool = False
    is_link: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """An order of documents."""

    keys: tuple[SortKey, ...] = ()

    @property
    def is_by_link(self) -> bool:
        """Whether the order is that of links, in which a search need not read all documents."""
        return not self.keys

    @property
    def columns(self) -> str:
        """Return the columns of a found row in SQL, with names."""
        keys = [
            f"{key.rank} AS r{number}, {key.value} AS v{number}, "
            for number, key in enumerate(self.keys)
        ]
        return f"{''.join(keys)}h.link AS link, h.version AS version, h.slot AS slot"

    @property
    def parameters(self) -> tuple[str, ...]:
        pairs = [(*key.rank_parameters, *key.value_parameters) for key in self.keys]
        return tuple(each for pair in pairs for each in pair)

    @property
    def terms(self) -> str:
        """Return the terms of ORDER BY, with the names of `columns`."""
        signs = [" DESC" if key.descending else "" for key in self.keys]
        keys = [f"r{number}{sign}, v{number}{sign}, " for number, sign in enumerate(signs)]
        return f"{''.join(keys)}link, version"

    def behind(self, place: Place) -> tuple[str, tuple[Any, ...]]:
        """Return the condition that a row is after a place, with the names of `columns`."""
        *keys, link, version = place
        sql = "(link > ? OR (link = ? AND version > ?))"
        parameters: tuple[Any, ...] = (link, link, version)
        for number, key in reversed(list(enumerate(self.keys))):
            sign = "<" if key.descending else ">"
            pair = keys[2 * number : 2 * number + 2]
            for name, value in ((f"v{number}", pair[1]), (f"r{number}", pair[0])):
                sql = f"({name} {sign} ? OR ({name} = ? AND {sql}))"
                parameters = (value, value, *parameters)
        return sql, parameters

    def sort(self, rows: list[Found]) -> None:
        """Sort found rows: one stable sort for each run of keys with the same direction.

        Most orders have one or two runs, and sorting rows that are mostly sorted is cheap.
        """
        # Link and version are the last keys, ascending.
        end, descending = 2 * len(self.keys) + 2, False
        for number, key in reversed(list(enumerate(self.keys))):
            if key.descending is not descending:
                begin = 2 * number + 2
                rows.sort(key=itemgetter(slice(begin, end)), reverse=descending)
                end, descending = begin, key.descending
        rows.sort(key=itemgetter(slice(0, end)), reverse=descending)


def place_of(found: Found) -> Place:
    return found[:-1]


def is_place(order: Order, value: Any) -> bool:
    """Say whether an untrusted value can be a place in an order."""
    if not isinstance(value, list) or len(value) != 2 * len(order.keys) + 2:
        return False
    *keys, link, version = value
    numbers = [each for each in (*keys, version) if not isinstance(each, str | float)]
    are_whole = all(type(each) is int and -(1 << 63) <= each < 1 << 63 for each in numbers)
    return isinstance(link, str) and not isinstance(version, str) and are_whole


def link_of(place: Place) -> str:
    link: str = place[-2]
    return link


def parse_order(text: str, known: Members = None) -> Order:
    """Parse an order. known: names that it may use. Raises BadRequest with the position."""
    tokens = Tokens(text, "$orderby", known)
    keys = tokens.listed(_key, KEYS_MAX, "asc, desc, a comma")
    if keys and keys[-1].is_link and not keys[-1].descending:
        keys.pop()  # Documents with equal keys are in the order of links anyway.
    return Order(tuple(keys))


def _key(tokens: Tokens) -> SortKey:
    operand = operand_of(tokens, "/.")
    return sort_key(operand, key_of(operand), descending=is_descending(tokens))


def is_descending(tokens: Tokens) -> bool:
    """Take `asc` or `desc`, if it is there; return whether it was `desc`."""
    if tokens.word("desc"):
        return True
    tokens.word("asc")
    return False


def sort_key(operand: Operand, key: Key, *, descending: bool) -> SortKey:
    if isinstance(operand, Column):
        return _of_column(operand, key, descending)
    return _of_member(operand, key, descending)


def _of_column(column: Column, key: Key, descending: bool) -> SortKey:
    if column.nullable:
        rank = f"CASE WHEN {column.sql} IS NULL THEN {MISSING} ELSE {NUMBER_RANK} END"
        return SortKey(key, rank, f"coalesce({column.sql}, 0)", descending=descending)
    among = TEXT_RANK if column.kind == TEXT else TRUE if column.kind == FLAG else NUMBER_RANK
    return SortKey(key, str(among), column.sql, descending=descending, is_link=column.is_link)


def _of_member(member: MemberPath, key: Key, descending: bool) -> SortKey:
    kind, found, parameters = member.kind, member.value, member.parameters
    rank = (
        f"CASE coalesce({kind}, 'null') WHEN 'null' THEN {MISSING} WHEN 'false' THEN {FALSE}"
        f" WHEN 'true' THEN {TRUE} WHEN 'integer' THEN {NUMBER_RANK} WHEN 'real' THEN {NUMBER_RANK}"
        f" WHEN 'text' THEN {TEXT_RANK} ELSE {WHOLE_RANK} END"
    )
    value = (
        f"CASE {kind} WHEN 'integer' THEN {found} WHEN 'real' THEN {found}"
        f" WHEN 'text' THEN substr({found}, 1, {TEXT_CHARACTERS}) ELSE 0 END"
    )
    return SortKey(key, rank, value, parameters, parameters * 4, descending)
