"""The parser of conditions: one language for queries, scans, feeds, subscriptions and Spark.

    status eq 'open' and (total gt 100 or address/city in ('Rome', 'Paris')) and not (note eq null)
    status = 'open' and (total > 100 or address.city in ('Rome', 'Paris')) and note is not null
    cast/any(c: c/name eq 'Bill*' and c/year ge 1990)      released ge 2026-11-20
    startswith(tolower(title), 'the ')      length(title) gt 20      tags contains 'new'

OData's words (`eq`, `in`, `startswith`, `any`, ...) compare as OData does: false for a member that
is missing, null or of another type, except `ne`, which is true. SQL's signs and words (`=`, `<>`,
`not in`, `like`, `between`, `contains`) compare as SQL does: unknown for such a member. `not` of
unknown is unknown, and a condition finds the documents for which it is true.

A star in a text after `eq` or `ne` matches any characters, as in Xenon; two stars match one star.
Everywhere else (`=`, `in`, `contains`, ...) a star matches a star. `like` accepts prefixes only.

Inside `any` and `all` each name begins with the element's: so a condition looks at each element
once, however deeply arrays nest.

Source: OData 4.01, part 2 (URL conventions), 5.1.1; SQL:2016, 8.1 to 8.8, a part of the grammar.
Wildcards are those of Xenon's ODataQueryVisitor.
"""

import re
from collections.abc import Sequence

from docstore.query import predicates
from docstore.query.columns import Column
from docstore.query.condition import Condition, Predicate, Unfit
from docstore.query.functions import FUNCTIONS, Operand, operand_or_function
from docstore.query.members import MemberPath
from docstore.query.operands import Variable
from docstore.query.predicates import Elements, IsNull, IsTrue, every, opposite
from docstore.query.tokens import Members, Token, Tokens

DEPTH_MAX = 64
"""Maximum levels of brackets, `not`, `any` and `all`."""
ARRAYS_MAX = 3
"""Maximum `any` and `all` inside each other."""
CLAUSES_MAX = 64
"""Maximum comparisons inside one `any` or `all`: each looks at every element."""
STARS_MAX = 8
PATTERN_MAX = 1_000
"""Maximum characters of a text with stars."""

_WORDS = {"eq": "=", "ne": "<>", "gt": ">", "ge": ">=", "lt": "<", "le": "<="}
_SIGNS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", ">": ">", "<=": "<=", ">=": ">="}
_TESTS = ("startswith", "endswith", "contains")
_NAMES = f"a name or one of {', '.join([*_TESTS, *FUNCTIONS])}"
_COMPARISON = (
    "a comparison (eq, ne, gt, ge, lt, le, in, is, like, between, contains, =, <>, <, <=, >, >=)"
)


def parse(text: str, subject: str = "where", known: Members = None) -> Condition:
    """Parse a condition. Raises BadRequest with the position.

    subject: the name of the text in messages. known: names that it may use.
    """
    tokens = Tokens(text, subject, known)
    predicate = _Parser(tokens).either(0)
    tokens.expect_end("and, or,")
    condition = Condition.of(predicate)
    if why := predicates.excess(condition.sql):
        raise tokens.refusal(why)
    return condition


class _Parser:
    """Rules of the grammar, from the loosest operator to the tightest."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._variable: Variable | None = None
        self._clauses = 0

    def either(self, depth: int) -> Predicate:
        found = [self.both(depth)]
        while self._tokens.word("or"):
            found.append(self.both(depth))
        return predicates.either(found)

    def both(self, depth: int) -> Predicate:
        found = [self.negation(depth)]
        while self._tokens.word("and"):
            found.append(self.negation(depth))
        return every(found)

    def negation(self, depth: int) -> Predicate:
        token = self._tokens.peek()
        if depth > DEPTH_MAX:
            raise self._refusal(f"conditions must nest at most {DEPTH_MAX} deep; deeper", token)
        if self._tokens.word("not"):
            return opposite(self.negation(depth + 1))
        if self._tokens.sign("("):
            inner = self.either(depth + 1)
            self._tokens.expect(")")
            return inner
        self._clauses += self._variable is not None
        if self._clauses > CLAUSES_MAX:
            raise self._refusal(
                f"any and all must have at most {CLAUSES_MAX} clauses; one more", token
            )
        try:
            return self._clause(depth)
        except Unfit as error:
            raise self._refusal(f"{error},", token) from None

    def _clause(self, depth: int) -> Predicate:
        token = self._tokens.peek()
        is_called = self._tokens.is_called()
        if is_called and token.text.lower() in _TESTS:
            return self._tested()
        if is_called and token.text.lower() not in FUNCTIONS:
            raise self._tokens.unexpected(token, _NAMES)
        operand = operand_or_function(self._tokens, self._variable)
        if self._tokens.sign("/"):
            return self._elements(operand, depth)
        token = self._tokens.take()
        if token.kind == "sign" and token.text in _SIGNS:
            return predicates.compared(operand, _SIGNS[token.text], self._tokens.literal())
        word = token.text.lower() if token.kind == "name" else ""
        if word in _WORDS:
            return self._compared(operand, word)
        if word == "in":
            return IsTrue(predicates.among(operand, self._tokens.literals()))
        if word == "is":
            negated = self._tokens.word("not")
            self._tokens.expect_word("null")
            return _null(operand, negated=negated)
        if word == "not":
            return opposite(self._longer(operand, self._tokens.take()))
        return self._longer(operand, token)

    def _compared(self, operand: Operand, word: str) -> Predicate:
        """Take what follows a comparison of OData."""
        token = self._tokens.peek()
        if self._tokens.word("null"):
            if word not in ("eq", "ne"):
                raise self._tokens.unexpected(token, "eq or ne before null")
            return _null(operand, negated=word == "ne")
        literal = self._tokens.literal()
        if word not in ("eq", "ne"):
            return IsTrue(predicates.compared(operand, _WORDS[word], literal))
        pieces = _pieces(literal) if isinstance(literal, str) else ()
        if len(pieces) > 1:
            found = predicates.resembles(operand, pieces)
        else:
            found = predicates.compared(operand, "=", pieces[0] if pieces else literal)
        return IsTrue(found) if word == "eq" else opposite(IsTrue(found))

    def _longer(self, operand: Operand, token: Token) -> Predicate:
        """Take what follows a comparison of SQL that is a word, with or without `not`."""
        match token.text.lower() if token.kind == "name" else "":
            case "in":
                return predicates.among(operand, self._tokens.literals())
            case "like":
                return predicates.resembles(operand, (self._prefix(), ""))
            case "between":
                low = self._tokens.literal()
                self._tokens.expect_word("and")
                high = self._tokens.literal()
                bounds = ((">=", low), ("<=", high))
                return every([predicates.compared(operand, *each) for each in bounds])
            case "contains":
                literal = self._tokens.literal()
                array = _array(operand, "contains")
                element = predicates.compared(array.element, "=", literal)
                return Elements(array, element)
            case _:
                raise self._tokens.unexpected(token, _COMPARISON)

    def _tested(self) -> Predicate:
        """Take a test of a text, or its comparison with true or false."""
        name = self._tokens.take().text.lower()
        self._tokens.expect("(")
        operand = operand_or_function(self._tokens, self._variable)
        self._tokens.expect(",")
        token = self._tokens.peek()
        text = self._tokens.literal()
        if not isinstance(text, str):
            raise self._tokens.unexpected(token, "a string in single quotes")
        self._tokens.expect(")")
        pieces = {"startswith": (text, ""), "endswith": ("", text), "contains": ("", text, "")}
        found = IsTrue(predicates.resembles(operand, pieces[name]))
        if not self._tokens.word("eq"):
            return found
        wanted = self._tokens.take()
        if wanted.text.lower() not in ("true", "false"):
            raise self._tokens.unexpected(wanted, "true or false")
        return found if wanted.text.lower() == "true" else opposite(found)

    def _elements(self, operand: Operand, depth: int) -> Predicate:
        """Take a condition on the elements of an array: `any(x: x gt 5)`."""
        token = self._tokens.take()
        word = token.text.lower()
        if word not in ("any", "all"):
            raise self._tokens.unexpected(token, "any or all")
        self._tokens.expect("(")
        name = self._tokens.name()
        self._tokens.expect(":")
        array = _array(operand, word)
        if array.level == ARRAYS_MAX:
            raise self._refusal(f"at most {ARRAYS_MAX} any or all must nest; deeper", token)
        outer, self._variable = self._variable, Variable(name, array.level + 1)
        inner = self.either(depth + 1)
        self._variable = outer
        if outer is None:
            self._clauses = 0
        self._tokens.expect(")")
        return IsTrue(Elements(array, inner, word == "all"))

    def _prefix(self) -> str:
        token = self._tokens.peek()
        pattern = self._tokens.literal()
        if not isinstance(pattern, str) or not pattern.endswith("%"):
            raise self._tokens.unexpected(token, "a prefix such as 'abc%'")
        if set(pattern[:-1]) & set("%_\\"):
            raise self._tokens.unexpected(token, "a prefix: % only at its end, no _ and no \\")
        return pattern[:-1]

    def _refusal(self, why: str, token: Token) -> Exception:
        return self._tokens.refusal(f"{why} at {token.at}")


def _null(operand: Operand, *, negated: bool) -> Predicate:
    if not isinstance(operand, Column | MemberPath):
        raise Unfit("null must be compared with a name")
    return IsNull(operand, negated)


def _array(operand: Operand, word: str) -> MemberPath:
    if not isinstance(operand, MemberPath):
        raise Unfit(f"{word} must name a member that is an array")
    return operand


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
