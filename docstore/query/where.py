"""A condition on documents, as text: parsed here, and said in SQL for whoever scans.

    status = 'open' and (total > 100 or addr.city in ('Rome', 'Paris')) and note is not null

Names are those of `operands.py`. A comparison with a member that is missing, null, or of another
type is unknown, and `not` of unknown is unknown, as in SQL: a row is found only by what is true of
it. `x like 'abc%'` is a prefix; no other pattern is known.
What is not understood is refused: a condition that is left out would find too much.

Source: the grammar is that of SQL:2016, 8.1 to 8.8, as far as it goes.
"""

from docstore.errors import BadRequest
from docstore.query.operands import Condition, Literal, Operand, operand_of
from docstore.query.tokens import Token, Tokens

DEPTH_MAX = 64
_COMPARISONS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", ">": ">", "<=": "<=",
                ">=": ">="}  # fmt: skip


def parse(text: str) -> Condition:
    """Return the condition that a text says. Raises BadRequest with where and why."""
    tokens = Tokens(text, "where")
    condition = _Parser(tokens).either(0)
    tokens.expect_end("and, or,")
    return condition


class _Parser:
    """The grammar, from the loosest to the tightest."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def either(self, depth: int) -> Condition:
        found = self.both(depth)
        while self._tokens.word("or"):
            other = self.both(depth)
            links = _united(found.links, other.links)
            found = _joined("OR", found, other, links, _common(found.prefix, other.prefix))
        return found

    def both(self, depth: int) -> Condition:
        found = self.negation(depth)
        while self._tokens.word("and"):
            other = self.negation(depth)
            sets = [each.links for each in (found, other) if each.links is not None]
            links = frozenset.intersection(*sets) if sets else None
            found = _joined("AND", found, other, links, max(found.prefix, other.prefix, key=len))
        return found

    def negation(self, depth: int) -> Condition:
        if depth > DEPTH_MAX:
            raise BadRequest(f"where: more than {DEPTH_MAX} deep")
        if self._tokens.word("not"):
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
                return _joined(
                    "AND", _compared(operand, ">=", low), _compared(operand, "<=", self._literal()),
                    None, "",
                )  # fmt: skip
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
    sql, parameters = operand.typed(literal)
    links = None
    if operand.is_link and sign == "=":
        links = frozenset({str(literal)})
    return Condition(f"({sql} {sign} ?)", (*parameters, literal), links)


def _among(operand: Operand, literals: list[Literal]) -> Condition:
    """Say that a value is one of some; those of one type in one list."""
    found: Condition | None = None
    for kind in (str, bool, int | float):
        alike = [each for each in literals if isinstance(each, kind)]
        if kind is not bool:
            alike = [each for each in alike if not isinstance(each, bool)]
        if not alike:
            continue
        sql, parameters = operand.typed(alike[0])
        marks = ", ".join("?" * len(alike))
        links = frozenset(map(str, alike)) if operand.is_link else None
        part = Condition(f"({sql} IN ({marks}))", (*parameters, *alike), links)
        joined = found and _joined("OR", found, part, _united(found.links, part.links), "")
        found = joined or part
    assert found is not None
    return found


def _begins(operand: Operand, prefix: str) -> Condition:
    sql, parameters = operand.typed(prefix)
    is_link = operand.is_link
    return Condition(
        f"(substr({sql}, 1, ?) = ?)",
        (*parameters, len(prefix), prefix),
        prefix=prefix if is_link else "",
    )


def _joined(
    word: str, one: Condition, other: Condition, links: frozenset[str] | None, prefix: str
) -> Condition:
    sql = f"({one.sql} {word} {other.sql})"
    return Condition(sql, (*one.parameters, *other.parameters), links, prefix)


def _united(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return None if one is None or other is None else one | other


def _common(one: str, other: str) -> str:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return one[:length]
