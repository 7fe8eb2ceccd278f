"""Operands of conditions, orders and aggregates: columns that the store sets, or members.

A name is a column that the store sets (documentSelfLink, slot, deleted, ...), or else a member of
the document, with dots into objects and [i] into arrays. A name in backquotes may hold any
character, and is a member even if a column has the same name. Inside `any` and
`all` each name must begin with the variable for the element.
"""

from dataclasses import dataclass

from docstore.model.document_members import STORE_SET
from docstore.query.columns import COLUMNS, WHOLE, Column
from docstore.query.members import MemberPath, member_at, odd_names
from docstore.query.tokens import Tokens

RESERVED = frozenset("and or not in is null like between contains true false".split())
POSITION_MAX = 999_999
"""Maximum index in an array: SQLite wraps at 32 bits, and would read another element."""
ODD_NAMES_MAX = 3
"""Maximum odd names in one path: each needs a look-up inside the previous one."""


Operand = Column | MemberPath


@dataclass(frozen=True, slots=True)
class Variable:
    """The name of an element of an array. level: see MemberPath."""

    name: str
    level: int


def operand_of(tokens: Tokens, separators: str = ".", variable: Variable | None = None) -> Operand:
    """Take a column or a member. separators: allowed between names. Raises BadRequest."""
    token = tokens.take()
    if token.kind != "name" or token.text.lower() in RESERVED:
        raise tokens.unexpected(token, "a name")
    name = token.text.strip("`")
    if variable is not None:
        if name != variable.name:
            raise tokens.unexpected(token, f"the element {variable.name[:40]}, or a member of it")
        return _member(tokens, _steps(tokens, separators), variable.level)
    is_member = token.text.startswith("`") and name not in STORE_SET
    if name in COLUMNS and not is_member:
        return COLUMNS[name]
    if name in WHOLE and not is_member:
        raise tokens.refusal(
            f"{name} is the whole document: name a member of it, or write `{name}` in backquotes"
            " for a member of this name"
        )
    if name in STORE_SET:
        raise tokens.refusal(
            f"{name} is not stored as a column, so it cannot be queried: leave it out"
        )
    if tokens.known is not None and name not in tokens.known:
        raise tokens.refusal(f"the schema names no member {name[:40]!r}, at {token.at}")
    return _member(tokens, [name, *_steps(tokens, separators)])


def _member(tokens: Tokens, steps: list[str | int], level: int = 0) -> MemberPath:
    if odd_names(steps) > ODD_NAMES_MAX:
        raise tokens.refusal(
            f"a path must have at most {ODD_NAMES_MAX} names with unusual characters"
        )
    return member_at(steps, level)


def _steps(tokens: Tokens, separators: str) -> list[str | int]:
    steps: list[str | int] = []
    while True:
        if tokens.peek().text in tuple(separators) and tokens.behind(2).text != "(":
            tokens.take()
            name = tokens.take()
            if name.kind != "name":
                raise tokens.unexpected(name, "a name")
            steps.append(name.text.strip("`"))
        elif tokens.sign("["):
            index = tokens.take()
            if not (index.text.isascii() and index.text.isdecimal()):
                raise tokens.unexpected(index, "a position")
            if len(index.text) > len(str(POSITION_MAX)):
                raise tokens.refusal(
                    f"a position must be at most {POSITION_MAX}; got more at {index.at}"
                )
            steps.append(int(index.text))
            tokens.expect("]")
        else:
            return steps
