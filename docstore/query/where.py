"""A condition on documents, as text: parsed here, and said in SQL for whoever scans.

    status = 'open' and (total > 100 or addr.city in ('Rome', 'Paris')) and note is not null

Names are those of `operands.py`. A comparison with a member that is missing, null, or of another
type is unknown, and `not` of unknown is unknown, as in SQL: a row is found only by what is true of
it. `x like 'abc%'` is a prefix; no other pattern is known.
What is not understood is refused: a condition that is left out would find too much.

Source: the grammar is that of SQL:2016, 8.1 to 8.8, as far as it goes.
"""

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate

from docstore.errors import BadRequest
from docstore.query.condition import Condition, Literal
from docstore.query.operands import Operand, operand_of
from docstore.query.tokens import Token, Tokens

DEPTH_MAX = 64
NESTING_MAX = 20
"""Brackets inside of each other in SQL: SQLite's parser has a stack of 100 entries until 3.46."""
AT_ONCE = 16
"""Parts in a row: few enough for SQLite, whose expressions are at most 1,000 deep."""
_COMPARISONS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", ">": ">", "<=": "<=",
                ">=": ">="}  # fmt: skip


def parse(text: str) -> Condition:
    """Return the condition that a text says. Raises BadRequest with where and why."""
    tokens = Tokens(text, "where")
    condition = _Parser(tokens).either(0)
    tokens.expect_end("and, or,")
    if _nesting(condition.sql) > NESTING_MAX:
        raise BadRequest("where: too much inside of each other")
    return condition


class _Parser:
    """The grammar, from the loosest to the tightest."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def either(self, depth: int) -> Condition:
        found = [self.both(depth)]
        while self._tokens.word("or"):
            found.append(self.both(depth))
        links = reduce(_united, [each.links for each in found])
        return _joined("OR", found, links, reduce(_common, [each.prefix for each in found]))

    def both(self, depth: int) -> Condition:
        found = [self.negation(depth)]
        while self._tokens.word("and"):
            found.append(self.negation(depth))
        sets = [each.links for each in found if each.links is not None]
        links = frozenset.intersection(*sets) if sets else None
        return _joined("AND", found, links, max((each.prefix for each in found), key=len))

    def negation(self, depth: int) -> Condition:
        if depth > DEPTH_MAX:
            raise BadRequest(f"where: more than {DEPTH_MAX} deep")
        if self._tokens.word("not"):
            if self._tokens.word("not"):  # Of what is unknown as well, the two make nothing.
                return self.negation(depth + 1)
            inner = self.negation(depth + 1)
            return Condition(f"(NOT {inner.sql})", inner.parameters)
        if self._tokens.sign("("):
            inner = self.either(depth + 1)
            self._tokens.expect(")")
            return inner
        return self._predicate()

    def _predicate(self) -> Condition:
        operand = operand_of(self._tokens)
        token = self._tokens.take()
        word = token.text.lower() if token.kind == "name" else ""
        if token.text in _COMPARISONS and token.kind == "sign":
            return _compared(operand, _COMPARISONS[token.text], self._literal())
        if word == "is":
            negated = self._tokens.word("not")
            self._tokens.expect_word("null")
            return operand.is_null(negated=negated)
        negated = word == "not"
        if negated:
            word = self._tokens.take().text.lower()
        found = self._longer(operand, word, token)
        return Condition(f"(NOT {found.sql})", found.parameters) if negated else found

    def _longer(self, operand: Operand, word: str, token: Token) -> Condition:
        match word:
            case "in":
                return _among(operand, self._literals())
            case "like":
                return _begins(operand, self._pattern())
            case "between":
                low = self._literal()
                self._tokens.expect_word("and")
                bounds = _compared(operand, ">=", low), _compared(operand, "<=", self._literal())
                return _joined("AND", bounds, None, "")
            case "contains":
                return operand.contains(self._literal())
            case _:
                raise self._tokens.unexpected(token, "a comparison")

    # Its leaves

    def _literals(self) -> list[Literal]:
        self._tokens.expect("(")
        found = [self._literal()]
        while self._tokens.sign(","):
            found.append(self._literal())
        self._tokens.expect(")")
        return found

    def _literal(self) -> Literal:
        token = self._tokens.take()
        if token.kind == "text":
            return token.text[1:-1].replace("''", "'")
        if token.kind == "number":
            number = float(token.text) if set(token.text) & set(".eE") else int(token.text)
            if isinstance(number, int) and not -(1 << 63) <= number < 1 << 63:
                raise BadRequest(f"where: {token.text} does not fit into 64 bits")
            return number
        if token.kind == "name" and token.text.lower() in ("true", "false"):
            return token.text.lower() == "true"
        raise self._tokens.unexpected(token, "a text in single quotes, a number, true or false")

    def _pattern(self) -> str:
        token = self._tokens.peek()
        pattern = self._literal()
        if not isinstance(pattern, str) or not pattern.endswith("%"):
            raise self._tokens.unexpected(token, "a prefix such as 'abc%'")
        if set(pattern[:-1]) & set("%_\\"):
            raise self._tokens.unexpected(token, "a prefix: % only at its end, no _ and no \\")
        return pattern[:-1]


def _compared(operand: Operand, sign: str, literal: Literal) -> Condition:
    literal = operand.fitted(literal)
    sql, parameters = operand.typed(literal)
    links = None
    if operand.is_link and sign == "=":
        links = frozenset({str(literal)})
    return Condition(f"({sql} {sign} ?)", (*parameters, literal), links)


def _among(operand: Operand, literals: list[Literal]) -> Condition:
    """Say that a value is one of some; those of one type in one list."""
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
    return _joined("OR", found, reduce(_united, [each.links for each in found]), "")


def _begins(operand: Operand, prefix: str) -> Condition:
    if not operand.is_text:
        raise BadRequest("where: like is for texts")
    sql, parameters = operand.typed(prefix)
    is_link = operand.is_link
    return Condition(
        f"(substr({sql}, 1, ?) = ?)",
        (*parameters, len(prefix), prefix),
        prefix=prefix if is_link else "",
    )


def _joined(
    word: str, parts: Sequence[Condition], links: frozenset[str] | None, prefix: str
) -> Condition:
    if len(parts) == 1:
        return parts[0]
    parameters = tuple(value for each in parts for value in each.parameters)
    return Condition(_tree(word, [each.sql for each in parts]), parameters, links, prefix)


def _tree(word: str, parts: Sequence[str]) -> str:
    """Return parts with a word between them, many as a tree that is broad and not deep."""
    while len(parts) > AT_ONCE:
        rows = [parts[at : at + AT_ONCE] for at in range(0, len(parts), AT_ONCE)]
        parts = [_tree(word, row) for row in rows]
    return f"({f' {word} '.join(parts)})"


def _nesting(sql: str) -> int:
    """Return how many brackets are open at the most."""
    steps = ({"(": 1, ")": -1}.get(character, 0) for character in sql)
    return max(accumulate(steps), default=0)


def _united(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return None if one is None or other is None else one | other


def _common(one: str, other: str) -> str:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return one[:length]
