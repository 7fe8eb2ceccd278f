"""In which order documents are wanted, as text: parsed here, and said in SQL for whoever searches.

    counter desc, address/city, documentUpdateTime

The order is total, and the same on every copy: what is missing or null comes first, then false,
true, numbers, texts, and arrays and objects last, which are all alike; what is equal by all keys
is in the order of link and version. `desc` turns all of a key round, what is missing as well. Texts
are compared by code points, and by their first 128 only: a cursor must not be as long as a
document.

A row that was found is (rank, value, rank, value, ..., link, version, slot): two for each key. Its
part before the slot is a place in the order, behind which a search goes on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from docstore.query.columns import FLAG, TEXT, Column
from docstore.query.members import MemberPath
from docstore.query.operands import operand_of
from docstore.query.tokens import Members, Tokens

KEYS_MAX = 4
TEXT_CHARACTERS = 128
MISSING, FALSE, TRUE, NUMBER_RANK, TEXT_RANK, WHOLE_RANK = range(6)

Found = tuple[Any, ...]
"""A row that was found."""
Place = Sequence[Any]
"""The part of one that says where it stands."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """One of the values by which documents are ordered: its rank among types, and itself."""

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
        """Say whether it is that of links, in which a search need not look at everything."""
        return not self.keys

    @property
    def columns(self) -> str:
        """Return what is taken of each document, with names for it."""
        keys = [
            f"{key.rank} AS r{number}, {key.value} AS v{number}, "
            for number, key in enumerate(self.keys)
        ]
        return f"{''.join(keys)}h.link AS link, h.version AS version, h.slot AS slot"

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return what the question marks in `columns` stand for."""
        pairs = [(*key.rank_parameters, *key.value_parameters) for key in self.keys]
        return tuple(each for pair in pairs for each in pair)

    @property
    def terms(self) -> str:
        """Return what documents are ordered by, in terms of those names."""
        signs = [" DESC" if key.descending else "" for key in self.keys]
        keys = [f"r{number}{sign}, v{number}{sign}, " for number, sign in enumerate(signs)]
        return f"{''.join(keys)}link, version"

    def behind(self, place: Place) -> tuple[str, tuple[Any, ...]]:
        """Return the condition, in terms of those names, that a row comes behind a place."""
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
        """Put rows that were found into this order: neighbouring keys of one direction together.

        Each turn of direction costs one more sort. Most orders have none or one, and rows that have
        come sorted, or in a few sorted parts, are hardly more than looked through then.
        """
        end, descending = 2 * len(self.keys) + 2, False  # Link and version come last, and go up.
        for number, key in reversed(list(enumerate(self.keys))):
            if key.descending is not descending:
                begin = 2 * number + 2
                rows.sort(key=itemgetter(slice(begin, end)), reverse=descending)
                end, descending = begin, key.descending
        rows.sort(key=itemgetter(slice(0, end)), reverse=descending)


def place_of(found: Found) -> Place:
    """Return where a row stands."""
    return found[:-1]


def is_place(order: Order, value: Any) -> bool:
    """Say whether something that came from outside can be a place in an order."""
    if not isinstance(value, list) or len(value) != 2 * len(order.keys) + 2:
        return False
    *keys, link, version = value
    numbers = [each for each in (*keys, version) if not isinstance(each, str | float)]
    are_whole = all(type(each) is int and -(1 << 63) <= each < 1 << 63 for each in numbers)
    return isinstance(link, str) and not isinstance(version, str) and are_whole


def link_of(place: Place) -> str:
    """Return the link of the row at a place."""
    link: str = place[-2]
    return link


def parse_order(text: str, known: Members = None) -> Order:
    """Return the order that a text says. Raises BadRequest with where and why.

    known: see `Tokens`.
    """
    tokens = Tokens(text, "$orderby", known)
    keys = tokens.listed(_key, KEYS_MAX, "asc, desc, a comma")
    if keys and keys[-1].is_link and not keys[-1].descending:
        keys.pop()  # It is the order of what is equal anyway.
    return Order(tuple(keys))


def _key(tokens: Tokens) -> SortKey:
    operand = operand_of(tokens, "/.")
    descending = tokens.word("desc")
    if not descending:
        tokens.word("asc")
    if isinstance(operand, Column):
        return _of_column(operand, descending)
    return _of_member(operand, descending)


def _of_column(column: Column, descending: bool) -> SortKey:
    if column.nullable:
        rank = f"CASE WHEN {column.sql} IS NULL THEN {MISSING} ELSE {NUMBER_RANK} END"
        return SortKey(rank, f"coalesce({column.sql}, 0)", descending=descending)
    among = TEXT_RANK if column.kind == TEXT else TRUE if column.kind == FLAG else NUMBER_RANK
    return SortKey(str(among), column.sql, descending=descending, is_link=column.is_link)


def _of_member(member: MemberPath, descending: bool) -> SortKey:
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
    return SortKey(rank, value, parameters, parameters * 4, descending)
