"""The scanner of conditions, orders and aggregates: tokens with one token of lookahead."""

import re
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from typing import TypeVar

from docstore.errors import BadRequest
from docstore.model.json import NO_CHARACTER
from docstore.query.condition import Literal
from docstore.query.moments import Moment, micros_of

TEXT_MAX = 16_384
INT64_END = 1 << 63
DIGITS_MAX = 100
"""Maximum digits of a whole number: Python refuses to parse some thousands."""

TIME = "a day such as 2026-11-20, or a time with seconds and its zone, 2026-11-20T19:00:00Z"

T = TypeVar("T")
Members = Container[str] | None
"""Allowed names of top-level members; None: any."""

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<text>'(?:[^']|'')*')
    | (?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9:.]*(?:Z|[+-][0-9:]*)?)?)
    | (?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*|`[^`]+`)
    | (?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|,|\.|\[|\]|\*|/|:)
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A token. kind: text, time, number, name, sign or end. at: its offset in characters."""

    kind: str
    text: str
    at: int


class Tokens:
    """The remaining tokens of a text. Methods raise BadRequest for an unexpected token."""

    def __init__(self, text: str, subject: str, known: Members = None) -> None:
        """subject: name of the text, for messages. known: members that may be named."""
        if len(text) > TEXT_MAX:
            raise BadRequest(f"{subject}: must have at most {TEXT_MAX} characters; got {len(text)}")
        unfit = NO_CHARACTER.search(text)
        if unfit is not None:
            raise BadRequest(f"{subject}: must not contain {unfit[0]!r}, as at {unfit.start()}")
        self.subject = subject
        self.known = known
        self._text = text
        self._tokens = list(_tokens(text, subject))
        self._next = 0

    def peek(self) -> Token:
        """Return the next token without taking it."""
        return self._tokens[self._next]

    def take(self) -> Token:
        """Take the next token; the end can be taken again and again."""
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def since(self, at: int) -> str:
        """Return the text from an offset up to the next token."""
        return self._text[at : self.peek().at].strip()

    def is_called(self) -> bool:
        return self.behind(1).text == "("

    def behind(self, places: int) -> Token:
        """Return the token `places` after the next one, or the end."""
        return self._tokens[min(self._next + places, len(self._tokens) - 1)]

    def sign(self, sign: str) -> bool:
        """Take the next token if it is this sign; return whether it was."""
        return self._accept(lambda token: token.kind == "sign" and token.text == sign)

    def word(self, word: str) -> bool:
        return self._accept(lambda token: token.kind == "name" and token.text.lower() == word)

    def expect(self, sign: str) -> None:
        if not self.sign(sign):
            raise self.unexpected(self.peek(), repr(sign))

    def expect_word(self, word: str) -> None:
        if not self.word(word):
            raise self.unexpected(self.peek(), word)

    def expect_end(self, wanted: str) -> None:
        """Take the end. wanted: other tokens that are allowed here, for the message."""
        if self.peek().kind != "end":
            raise self.unexpected(self.peek(), f"{wanted} or the end")

    def listed(self, term: Callable[["Tokens"], T], most: int, wanted: str) -> list[T]:
        """Take terms between commas up to the end. wanted: see `expect_end`."""
        found: list[T] = []
        while self.peek().kind != "end" or found:
            found.append(term(self))
            if len(found) > most:
                raise self.refusal(f"there must be at most {most} names")
            if not self.sign(","):
                self.expect_end(wanted)
                break
        return found

    def name(self) -> str:
        token = self.take()
        if token.kind != "name":
            raise self.unexpected(token, "a name")
        return token.text.strip("`")

    def literals(self) -> list[Literal]:
        self.expect("(")
        found = [self.literal()]
        while self.sign(","):
            found.append(self.literal())
        self.expect(")")
        return found

    def literal(self) -> Literal:
        token = self.take()
        if token.kind == "text":
            return token.text[1:-1].replace("''", "'")
        if token.kind == "time":
            micros = micros_of(token.text)
            if micros is None:
                raise self.unexpected(token, TIME)
            return Moment(micros)
        if token.kind == "number":
            if set(token.text) & set(".eE"):
                return float(token.text)
            number = int(token.text) if len(token.text) <= DIGITS_MAX else INT64_END
            if not -INT64_END <= number < INT64_END:
                raise self.refusal(
                    f"a number must fit into 64 bits; got {token.text[:40]} at {token.at}"
                )
            return number
        if token.kind == "name" and token.text.lower() in ("true", "false"):
            return token.text.lower() == "true"
        raise self.unexpected(token, "a string in single quotes, a number, a time, true or false")

    def refusal(self, why: str) -> BadRequest:
        return BadRequest(f"{self.subject}: {why}")

    def unexpected(self, token: Token, wanted: str) -> BadRequest:
        found = repr(token.text[:40]) if token.kind != "end" else "the end"
        return self.refusal(f"{found} at {token.at}, where {wanted} is expected")

    def _accept(self, fits: Callable[[Token], bool]) -> bool:
        fitting = fits(self.peek())
        if fitting:
            self.take()
        return fitting


def _tokens(text: str, subject: str) -> Iterator[Token]:
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            at = len(text) - len(text[at:].lstrip())
            raise BadRequest(f"{subject}: {text[at:].strip()[:20]!r} at {at} is not understood")
        yield Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup))
        at = match.end()
    yield Token("end", "", len(text))
