"""A condition on documents, as text: parsed here, and said in SQL for whoever scans.

    status = 'open' and (total > 100 or addr.city in ('Rome', 'Paris')) and note is not null

A name is a member of the document, with dots into objects and [i] into arrays, or one of the
columns that the store sets (documentSelfLink, documentVersion, ...). A comparison with a member
that is missing, null, or of another type is unknown, and `not` of unknown is unknown, as in SQL:
a row is found only by what is true of it. `x like 'abc%'` is a prefix; no other pattern is known.
What is not understood is refused: a condition that is left out would find too much.

Source: the grammar is that of SQL:2016, 8.1 to 8.8, as far as it goes.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from docstore.errors import BadRequest

TEXT_MAX = 16_384
DEPTH_MAX = 64

COLUMNS = {
    "documentSelfLink": "h.link",
    "documentVersion": "h.version",
    "documentEpoch": "h.epoch",
    "documentOwner": "h.owner",
    "documentUpdateAction": "h.action",
    "documentUpdateTimeMicros": "h.updated_us",
}
"""What the store sets, as columns of the statement that a condition is put into."""

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<text>'(?:[^']|'')*')
    | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*|`[^`]+`)
    | (?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|,|\.|\[|\])
    )""",
    re.VERBOSE,
)
_COMPARISONS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", ">": ">", "<=": "<=",
                ">=": ">="}  # fmt: skip
_WORDS = frozenset("and or not in is null like between contains true false".split())

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


def parse(text: str) -> Condition:
    """Return the condition that a text says. Raises BadRequest with where and why."""
    if len(text) > TEXT_MAX:
        raise BadRequest(f"where: at most {TEXT_MAX} characters")
    parser = _Parser(text)
    condition = parser.either(0)
    parser.expect_end()
    return condition


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise BadRequest(f"where: {text[at:].strip()[:20]!r} at {at} is not understood")
        yield _Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup))
        at = match.end()
    yield _Token("end", "", len(text))


class _Parser:
    """Reads from left to right, one token ahead."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._next = 0

    # The grammar, from the loosest to the tightest

    def either(self, depth: int) -> Condition:
        found = self.both(depth)
        while self._word("or"):
            other = self.both(depth)
            links = _united(found.links, other.links)
            found = _joined("OR", found, other, links, _common(found.prefix, other.prefix))
        return found

    def both(self, depth: int) -> Condition:
        found = self.negation(depth)
        while self._word("and"):
            other = self.negation(depth)
            sets = [each.links for each in (found, other) if each.links is not None]
            links = frozenset.intersection(*sets) if sets else None
            found = _joined("AND", found, other, links, max(found.prefix, other.prefix, key=len))
        return found

    def negation(self, depth: int) -> Condition:
        if depth > DEPTH_MAX:
            raise BadRequest(f"where: more than {DEPTH_MAX} deep")
        if self._word("not"):
            inner = self.negation(depth + 1)
            return Condition(f"(NOT {inner.sql})", inner.parameters)
        if self._sign("("):
            inner = self.either(depth + 1)
            self._expect(")")
            return inner
        return self._predicate()

    def _predicate(self) -> Condition:
        operand = self._operand()
        token = self._take()
        word = token.text.lower() if token.kind == "name" else ""
        if token.text in _COMPARISONS and token.kind == "sign":
            return _compared(operand, _COMPARISONS[token.text], self._literal())
        if word == "is":
            negated = self._word("not")
            self._expect_word("null")
            return operand.is_null(negated=negated)
        negated = word == "not"
        if negated:
            word = self._take().text.lower()
        found = self._longer(operand, word, token)
        return Condition(f"(NOT {found.sql})", found.parameters) if negated else found

    def _longer(self, operand: "_Operand", word: str, token: _Token) -> Condition:
        match word:
            case "in":
                return _among(operand, self._literals())
            case "like":
                return _begins(operand, self._pattern())
            case "between":
                low = self._literal()
                self._expect_word("and")
                return _joined(
                    "AND", _compared(operand, ">=", low), _compared(operand, "<=", self._literal()),
                    None, "",
                )  # fmt: skip
            case "contains":
                return operand.contains(self._literal())
            case _:
                raise _unexpected(token, "a comparison")

    # Its leaves

    def _operand(self) -> "_Operand":
        token = self._take()
        if token.kind != "name" or token.text.lower() in _WORDS:
            raise _unexpected(token, "a name")
        if token.text in COLUMNS:
            return _Column(COLUMNS[token.text], is_link=token.text == "documentSelfLink")
        path = "$." + _quoted(token.text)
        while True:
            if self._sign("."):
                name = self._take()
                if name.kind != "name":
                    raise _unexpected(name, "a name")
                path += "." + _quoted(name.text)
            elif self._sign("["):
                index = self._take()
                if not index.text.isdecimal():
                    raise _unexpected(index, "a position")
                path += f"[{index.text}]"
                self._expect("]")
            else:
                return _Member(path)

    def _literals(self) -> list[Literal]:
        self._expect("(")
        found = [self._literal()]
        while self._sign(","):
            found.append(self._literal())
        self._expect(")")
        return found

    def _literal(self) -> Literal:
        token = self._take()
        if token.kind == "text":
            return token.text[1:-1].replace("''", "'")
        if token.kind == "number":
            number = float(token.text) if set(token.text) & set(".eE") else int(token.text)
            if isinstance(number, int) and not -(1 << 63) <= number < 1 << 63:
                raise BadRequest(f"where: {token.text} does not fit into 64 bits")
            return number
        if token.kind == "name" and token.text.lower() in ("true", "false"):
            return token.text.lower() == "true"
        raise _unexpected(token, "a text in single quotes, a number, true or false")

    def _pattern(self) -> str:
        token = self._peek()
        pattern = self._literal()
        if not isinstance(pattern, str) or not pattern.endswith("%"):
            raise _unexpected(token, "a prefix such as 'abc%'")
        if set(pattern[:-1]) & set("%_\\"):
            raise _unexpected(token, "a prefix: % only at its end, no _ and no \\")
        return pattern[:-1]

    # Tokens

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _sign(self, sign: str) -> bool:
        return self._accept(lambda token: token.kind == "sign" and token.text == sign)

    def _word(self, word: str) -> bool:
        return self._accept(lambda token: token.kind == "name" and token.text.lower() == word)

    def _accept(self, fits: Callable[[_Token], bool]) -> bool:
        fitting = fits(self._peek())
        if fitting:
            self._take()
        return fitting

    def _expect(self, sign: str) -> None:
        if not self._sign(sign):
            raise _unexpected(self._peek(), repr(sign))

    def _expect_word(self, word: str) -> None:
        if not self._word(word):
            raise _unexpected(self._peek(), word)

    def expect_end(self) -> None:
        if self._peek().kind != "end":
            raise _unexpected(self._peek(), "and, or, or the end")


# Operands


@dataclass(frozen=True, slots=True)
class _Column:
    sql: str
    is_link: bool = False

    def typed(self, literal: Literal) -> tuple[str, tuple[Any, ...]]:
        """Return the value, or NULL if it is not of the literal's type."""
        is_text = self.sql in ("h.link", "h.owner", "h.action")
        fits = isinstance(literal, str) if is_text else _is_number(literal)
        return (self.sql if fits else "NULL", ())

    def is_null(self, *, negated: bool) -> Condition:
        """Nothing that the store sets is null."""
        return Condition(f"({int(negated)})", ())

    def contains(self, literal: Literal) -> Condition:
        raise BadRequest("where: contains is for members that are arrays")


_STATE = "CAST(h.state AS TEXT)"


@dataclass(frozen=True, slots=True)
class _Member:
    path: str
    is_link: ClassVar[bool] = False

    def typed(self, literal: Literal) -> tuple[str, tuple[Any, ...]]:
        """Return the value, or NULL if it is not of the literal's type."""
        if isinstance(literal, bool):
            types = "'true', 'false'"
        elif isinstance(literal, str):
            types = "'text'"
        else:
            types = "'integer', 'real'"
        sql = f"CASE WHEN json_type({_STATE}, ?) IN ({types}) THEN json_extract({_STATE}, ?) END"
        return sql, (self.path, self.path)

    def is_null(self, *, negated: bool) -> Condition:
        """Null and missing are the same, as they are to Spark."""
        sql = f"(coalesce(json_type({_STATE}, ?), 'null') {'<>' if negated else '='} 'null')"
        return Condition(sql, (self.path,))

    def contains(self, literal: Literal) -> Condition:
        """Say whether an array has an element that equals the literal."""
        types = "'true', 'false'" if isinstance(literal, bool) else (
            "'text'" if isinstance(literal, str) else "'integer', 'real'"
        )  # fmt: skip
        element = f"EXISTS (SELECT 1 FROM json_each({_STATE}, ?) e"  # noqa: S608 - our own words
        element += f" WHERE e.type IN ({types}) AND e.value = ?)"
        sql = f"(CASE WHEN json_type({_STATE}, ?) = 'array' THEN {element} END)"
        return Condition(sql, (self.path, self.path, literal))


_Operand = _Column | _Member


def _compared(operand: _Operand, sign: str, literal: Literal) -> Condition:
    sql, parameters = operand.typed(literal)
    links = None
    if operand.is_link and sign == "=":
        links = frozenset({str(literal)})
    return Condition(f"({sql} {sign} ?)", (*parameters, literal), links)


def _among(operand: _Operand, literals: list[Literal]) -> Condition:
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


def _begins(operand: _Operand, prefix: str) -> Condition:
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


def _is_number(literal: Literal) -> bool:
    return isinstance(literal, int | float) and not isinstance(literal, bool)


def _quoted(name: str) -> str:
    name = name.strip("`")
    if '"' in name:
        raise BadRequest(f"where: a name with quotes is not known: {name[:40]!r}")
    return f'"{name}"'


def _unexpected(token: _Token, wanted: str) -> BadRequest:
    found = repr(token.text[:40]) if token.kind != "end" else "the end"
    return BadRequest(f"where: {found} at {token.at}, where {wanted} is expected")
