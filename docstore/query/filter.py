"""The parser of OData's `$filter`: the conditions of `where` in another grammar.

    counter ge 10 and (address/city eq 'Rome' or startswith(name,'x')) and not (note eq null)
    name eq 'x*'      tags/any(t: t eq 'new')      status in ('open','new')      name eq 'O''Neil'

Names are those of `operands.py`, with `/` or `.` into objects. Comparisons with missing or null
members, or with ones of another type, are false, except `ne`, which is true; `not` negates them.

A star in a text after `eq` or `ne`, also inside `any`, matches any characters, as in Xenon; two
stars match one star. Everywhere else (`in`, `contains`, ...) a star matches a star.

Source: OData 4.01, part 2 (URL conventions), 5.1.1; two-valued comparisons are 5.1.1.1. Wildcards
are those of Xenon's ODataQueryVisitor.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from docstore.query import predicates
from docstore.query.condition import Condition, Literal, Unfit
from docstore.query.members import MemberPath
from docstore.query.operands import Operand, operand_of
from docstore.query.predicates import known, opposite
from docstore.query.tokens import Members, Token, Tokens

CLAUSES_MAX = 64
DEPTH_MAX = 16
STARS_MAX = 8
PATTERN_MAX = 1_000
"""Maximum characters of a text with stars."""

SEPARATORS = "/."
_COMPARISONS = {"eq": "=", "ne": "<>", "gt": ">", "ge": ">=", "lt": "<", "le": "<="}
_FUNCTIONS: Mapping[str, Callable[[Operand, str], Condition]] = {
    "startswith": predicates.begins,
    "endswith": predicates.ends,
    "contains": predicates.holds,
}


def parse_filter(text: str, known: Members = None) -> Condition:
    """Parse a condition. known: names that it may use. Raises BadRequest with the position."""
    tokens = Tokens(text, "$filter", known)
    condition = _FilterParser(tokens).either(0)
    tokens.expect_end("and, or,")
    if why := predicates.excess(condition):
        raise tokens.refusal(why)
    return condition


class _FilterParser:
    """Rules of the grammar, from the loosest operator to the tightest."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._clauses = 0

    def either(self, depth: int) -> Condition:
        found = [self.both(depth)]
        while self._tokens.word("or"):
            found.append(self.both(depth))
        return predicates.either(found)

    def both(self, depth: int) -> Condition:
        found = [self.negation(depth)]
        while self._tokens.word("and"):
            found.append(self.negation(depth))
        return predicates.every(found)

    def negation(self, depth: int) -> Condition:
        token = self._tokens.peek()
        if depth > DEPTH_MAX:
            raise self._tokens.refusal(
                f"conditions must nest at most {DEPTH_MAX} deep; deeper at {token.at}"
            )
        if self._tokens.word("not"):
            return opposite(self.negation(depth + 1))
        if self._tokens.sign("("):
            inner = self.either(depth + 1)
            self._tokens.expect(")")
            return inner
        self._clauses += 1
        if self._clauses > CLAUSES_MAX:
            raise self._tokens.refusal(
                f"there must be at most {CLAUSES_MAX} clauses; one more at {token.at}"
            )
        try:
            return self._clause()
        except Unfit as error:
            raise self._tokens.refusal(f"{error}, at {token.at}") from None

    def _clause(self) -> Condition:
        if self._tokens.is_called():
            return self._called()
        operand = operand_of(self._tokens, SEPARATORS)
        if self._tokens.sign("/"):
            return self._any(operand)
        token = self._tokens.take()
        word = token.text.lower() if token.kind == "name" else ""
        if word == "in":
            return known(predicates.among(operand, self._tokens.literals()))
        if word not in _COMPARISONS:
            raise self._tokens.unexpected(token, "eq, ne, gt, ge, lt, le or in")
        if self._tokens.peek().text.lower() == "null":
            return self._null(operand, token, word)
        literal = self._tokens.literal()
        if word == "ne":
            return opposite(known(_equal(operand, literal)))
        if word == "eq":
            return known(_equal(operand, literal))
        return known(predicates.compared(operand, _COMPARISONS[word], literal))

    def _called(self) -> Condition:
        """Take a function of a text, or its comparison with true or false."""
        token = self._tokens.take()
        function = _FUNCTIONS.get(token.text.lower())
        if function is None:
            raise self._tokens.unexpected(token, f"a name or one of {', '.join(_FUNCTIONS)}")
        self._tokens.expect("(")
        operand = operand_of(self._tokens, SEPARATORS)
        self._tokens.expect(",")
        text = self._tokens.peek()
        literal = self._tokens.literal()
        if not isinstance(literal, str):
            raise self._tokens.unexpected(text, "a string in single quotes")
        self._tokens.expect(")")
        found = known(function(operand, literal))
        if not self._tokens.word("eq"):
            return found
        wanted = self._tokens.take()
        if wanted.text.lower() not in ("true", "false"):
            raise self._tokens.unexpected(wanted, "true or false")
        return found if wanted.text.lower() == "true" else opposite(found)

    def _any(self, operand: Operand) -> Condition:
        """Take a condition on an element of an array: `any(x: x gt 5)`."""
        self._tokens.expect_word("any")
        self._tokens.expect("(")
        name = self._tokens.take()
        self._tokens.expect(":")
        again, sign = self._tokens.take(), self._tokens.take()
        if name.kind != "name" or again.text != name.text:
            raise self._tokens.unexpected(again, "a name, : and the same name")
        word = sign.text.lower()
        if word == "ne" or word not in _COMPARISONS:
            raise self._tokens.unexpected(sign, "eq, gt, ge, lt or le")
        literal = self._tokens.literal()
        self._tokens.expect(")")
        if not isinstance(operand, MemberPath):
            raise Unfit("any must name a member that is an array")
        if word == "eq" and isinstance(literal, str):
            pieces = _pieces(literal)
            if len(pieces) > 1:
                return known(operand.contains(predicates.pattern_of(pieces), "GLOB"))
            literal = pieces[0]
        return known(operand.contains(literal, _COMPARISONS[word]))

    def _null(self, operand: Operand, token: Token, word: str) -> Condition:
        if word not in ("eq", "ne"):
            raise self._tokens.unexpected(token, "eq or ne before null")
        self._tokens.take()
        return operand.is_null(negated=word == "ne")


def _equal(operand: Operand, literal: Literal) -> Condition:
    pieces = _pieces(literal) if isinstance(literal, str) else [""]
    if len(pieces) > 1:
        return predicates.resembles(operand, pieces)
    return predicates.compared(operand, "=", pieces[0] if isinstance(literal, str) else literal)


def _pieces(text: str) -> Sequence[str]:
    """Split a text at its stars; two stars in a row are a literal star."""
    pieces = [""]
    for part in re.findall(r"\*\*|\*|[^*]+", text):
        if part == "*":
            pieces.append("")
        else:
            pieces[-1] += "*" if part == "**" else part
    if len(pieces) > 1 and (len(pieces) > STARS_MAX + 1 or len(text) > PATTERN_MAX):
        raise Unfit(f"a pattern must have at most {STARS_MAX} stars and {PATTERN_MAX} characters")
    return pieces
