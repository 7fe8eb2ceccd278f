"""What a document is asked for: a column that the store sets, or a member, in SQL.

A name is a member of the document, with dots into objects and [i] into arrays, or one of the
columns that the store sets (documentSelfLink, documentVersion, ...).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from docstore.errors import BadRequest
from docstore.query.tokens import Tokens

COLUMNS = {
    "documentSelfLink": "h.link",
    "documentVersion": "h.version",
    "documentEpoch": "h.epoch",
    "documentOwner": "h.owner",
    "documentUpdateAction": "h.action",
    "documentUpdateTimeMicros": "h.updated_us",
}
"""What the store sets, as columns of the statement that a condition is put into."""
RESERVED = frozenset("and or not in is null like between contains true false".split())
STATE = "CAST(h.state AS TEXT)"
_TEXTS = ("h.link", "h.owner", "h.action")

Literal = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition in SQL with question marks, and what it says of links alone.

    links: the only links that can fulfil it; None if it leaves them open.
    prefix: how every link that can fulfil it begins; "" if it leaves that open.
    """

    sql: str
    parameters: tuple[Any, ...]
    links: frozenset[str] | None = None
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """One that the store sets."""

    sql: str
    is_link: bool = False

    @property
    def is_text(self) -> bool:
        """Say whether its values are texts; all others are whole numbers."""
        return self.sql in _TEXTS

    def typed(self, literal: Literal) -> tuple[str, tuple[Any, ...]]:
        """Return the value, or NULL if it is not of the literal's type."""
        fits = isinstance(literal, str) if self.is_text else _is_number(literal)
        return (self.sql if fits else "NULL", ())

    def is_null(self, *, negated: bool) -> Condition:
        """Nothing that the store sets is null."""
        return Condition(f"({int(negated)})", ())

    def contains(self, literal: Literal) -> Condition:
        """Refuse: nothing that the store sets is an array."""
        raise BadRequest("where: contains is for members that are arrays")


@dataclass(frozen=True, slots=True)
class Member:
    """One of the document's own, by its path in SQLite's spelling."""

    path: str
    is_link: ClassVar[bool] = False

    def typed(self, literal: Literal) -> tuple[str, tuple[Any, ...]]:
        """Return the value, or NULL if it is not of the literal's type."""
        types = _json_types(literal)
        sql = f"CASE WHEN json_type({STATE}, ?) IN ({types}) THEN json_extract({STATE}, ?) END"
        return sql, (self.path, self.path)

    def is_null(self, *, negated: bool) -> Condition:
        """Null and missing are the same, as they are to Spark."""
        sql = f"(coalesce(json_type({STATE}, ?), 'null') {'<>' if negated else '='} 'null')"
        return Condition(sql, (self.path,))

    def contains(self, literal: Literal) -> Condition:
        """Say whether an array has an element that equals the literal."""
        element = f"EXISTS (SELECT 1 FROM json_each({STATE}, ?) e"  # noqa: S608 - our own words
        element += f" WHERE e.type IN ({_json_types(literal)}) AND e.value = ?)"
        sql = f"(CASE WHEN json_type({STATE}, ?) = 'array' THEN {element} END)"
        return Condition(sql, (self.path, self.path, literal))


Operand = Column | Member


def operand_of(tokens: Tokens) -> Operand:
    """Take a column or a member. Raises BadRequest."""
    token = tokens.take()
    if token.kind != "name" or token.text.lower() in RESERVED:
        raise tokens.unexpected(token, "a name")
    if token.text in COLUMNS:
        return Column(COLUMNS[token.text], is_link=token.text == "documentSelfLink")
    path = "$." + _quoted(tokens, token.text)
    while True:
        if tokens.sign("."):
            name = tokens.take()
            if name.kind != "name":
                raise tokens.unexpected(name, "a name")
            path += "." + _quoted(tokens, name.text)
        elif tokens.sign("["):
            index = tokens.take()
            if not index.text.isdecimal():
                raise tokens.unexpected(index, "a position")
            path += f"[{index.text}]"
            tokens.expect("]")
        else:
            return Member(path)


def _json_types(literal: Literal) -> str:
    """Return what SQLite calls the types of JSON that are a literal's."""
    if isinstance(literal, bool):
        return "'true', 'false'"
    return "'text'" if isinstance(literal, str) else "'integer', 'real'"


def _is_number(literal: Literal) -> bool:
    return isinstance(literal, int | float) and not isinstance(literal, bool)


def _quoted(tokens: Tokens, name: str) -> str:
    name = name.strip("`")
    if '"' in name:
        raise tokens.refusal(f"a name with quotes is not known: {name[:40]!r}")
    return f'"{name}"'
