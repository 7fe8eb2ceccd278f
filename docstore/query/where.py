"""The parser of `where`: a condition on documents, translated to SQL.

    status = 'open' and (total > 100 or addr.city in ('Rome', 'Paris')) and note is not null

Names are those of `operands.py`. A comparison with a member that is missing, null, or of another
type is unknown, and `not` of unknown is unknown, as in SQL: only rows for which the condition is
true are found. `x like 'abc%'` is a prefix; other patterns are rejected.

Source: SQL:2016, 8.1 to 8.8, a part of the grammar.
"""

from docstore.query.condition import Condition, Literal, Unfit
from docstore.query.operands import Operand, operand_of
from docstore.query.predicates import among, begins, compared, either, every, excess, opposite
from docstore.query.tokens import Token, Tokens

DEPTH_MAX = 64
_COMPARISONS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", ">": ">", "<=": "<=",
                ">=": ">="}  # fmt: skip


def parse(text: str) -> Condition:
    tokens = Tokens(text, "where")
    condition = _WhereParser(tokens).either(0)
    tokens.expect_end("and, or,")
    if why := excess(condition):
        raise tokens.refusal(why)
    return condition


class _WhereParser:
    """Rules of the grammar, from the loosest operator to the tightest."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def either(self, depth: int) -> Condition:
        found = [self.both(depth)]
        while self._tokens.word("or"):
            found.append(self.both(depth))
        return either(found)

    def both(self, depth: int) -> Condition:
        found = [self.negation(depth)]
        while self._tokens.word("and"):
            found.append(self.negation(depth))
        return every(found)

    def negation(self, depth: int) -> Condition:
        if depth > DEPTH_MAX:
            raise self._tokens.refusal(f"conditions must nest at most {DEPTH_MAX} deep")
        if self._tokens.word("not"):
            if self._tokens.word("not"):  # Two negations cancel each other, also for unknown.
                return self.negation(depth + 1)
            return opposite(self.negation(depth + 1))
        if self._tokens.sign("("):
            inner = self.either(depth + 1)
            self._tokens.expect(")")
            return inner
        try:
            return self._predicate()
        except Unfit as error:
            raise self._tokens.refusal(str(error)) from None

    def _predicate(self) -> Condition:
        operand = operand_of(self._tokens)
        token = self._tokens.take()
        word = token.text.lower() if token.kind == "name" else ""
        if token.text in _COMPARISONS and token.kind == "sign":
            return compared(operand, _COMPARISONS[token.text], self._tokens.literal())
        if word == "is":
            negated = self._tokens.word("not")
            self._tokens.expect_word("null")
            return operand.is_null(negated=negated)
        negated = word == "not"
        if negated:
            word = self._tokens.take().text.lower()
        found = self._longer(operand, word, token)
        return opposite(found) if negated else found

    def _longer(self, operand: Operand, word: str, token: Token) -> Condition:
        match word:
            case "in":
                return among(operand, self._tokens.literals())
            case "like":
                return begins(operand, self._pattern())
            case "between":
                low = self._tokens.literal()
                self._tokens.expect_word("and")
                high: Literal = self._tokens.literal()
                return every([compared(operand, ">=", low), compared(operand, "<=", high)])
            case "contains":
                return operand.contains(self._tokens.literal())
            case _:
                raise self._tokens.unexpected(token, "a comparison")

    def _pattern(self) -> str:
        token = self._tokens.peek()
        pattern = self._tokens.literal()
        if not isinstance(pattern, str) or not pattern.endswith("%"):
            raise self._tokens.unexpected(token, "a prefix such as 'abc%'")
        if set(pattern[:-1]) & set("%_\\"):
            raise self._tokens.unexpected(token, "a prefix: % only at its end, no _ and no \\")
        return pattern[:-1]
