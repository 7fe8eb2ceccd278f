"""Functions of a text, which conditions compare like a member: `tolower(name) eq 'x'`.

SQLite's `lower` changes the letters A to Z only, and so does its counterpart here.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from docstore.query import operands
from docstore.query.condition import Literal, Sql, Unfit
from docstore.query.operands import Variable, operand_of
from docstore.query.tokens import Tokens


@dataclass(frozen=True, slots=True)
class Lowered:
    """A text with the letters A to Z in lower case."""

    of: operands.Operand
    is_link: ClassVar[bool] = False
    is_text: ClassVar[bool] = True

    def fitted(self, literal: Literal) -> Literal:
        if not isinstance(literal, str):
            raise Unfit("tolower must be compared with a string in single quotes")
        return literal

    def typed(self, literal: Literal) -> Sql:
        text, parameters = self.of.typed("")
        return Sql(f"lower({text})", parameters)

    def value_for(self, scope: Any, literal: Literal) -> Any:
        value = self.of.value_for(scope, "")
        return None if value is None else value.translate(_LOWER)


@dataclass(frozen=True, slots=True)
class Length:
    """The number of characters of a text."""

    of: operands.Operand
    is_link: ClassVar[bool] = False
    is_text: ClassVar[bool] = False

    def fitted(self, literal: Literal) -> Literal:
        if isinstance(literal, bool) or not isinstance(literal, int | float):
            raise Unfit("length must be compared with a number")
        return literal

    def typed(self, literal: Literal) -> Sql:
        text, parameters = self.of.typed("")
        return Sql(f"length({text})", parameters)

    def value_for(self, scope: Any, literal: Literal) -> Any:
        value = self.of.value_for(scope, "")
        return None if value is None else len(value)


FUNCTIONS: dict[str, type[Lowered | Length]] = {"tolower": Lowered, "length": Length}
Operand = operands.Operand | Lowered | Length
_LOWER = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


def operand_or_function(tokens: Tokens, variable: Variable | None) -> Operand:
    """Take a column, a member, or a function of one. Raises BadRequest, Unfit."""
    name = tokens.peek().text.lower()
    if not tokens.is_called() or name not in FUNCTIONS:
        return operand_of(tokens, "/.", variable)
    tokens.take()
    tokens.expect("(")
    operand = operand_of(tokens, "/.", variable)
    if not operand.is_text:
        raise Unfit(f"{name} must name a member, or a column that is a text")
    tokens.expect(")")
    return FUNCTIONS[name](operand)
