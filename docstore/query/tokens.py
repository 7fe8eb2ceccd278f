"""A condition's text as words and signs, read from left to right, one ahead."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from docstore.errors import BadRequest

TEXT_MAX = 16_384

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<text>'(?:[^']|'')*')
    | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*|`[^`]+`)
    | (?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|,|\.|\[|\]|\*)
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """kind: text, number, name, sign or end. at: where it begins, in characters."""

    kind: str
    text: str
    at: int


class Tokens:
    """What is left of a text. Everything that is not as expected raises BadRequest."""

    def __init__(self, text: str, subject: str) -> None:
        """subject: what the text is, for messages."""
        if len(text) > TEXT_MAX:
            raise BadRequest(f"{subject}: at most {TEXT_MAX} characters")
        self.subject = subject
        self._text = text
        self._tokens = list(_tokens(text, subject))
        self._next = 0

    def peek(self) -> Token:
        """Return the next token and leave it."""
        return self._tokens[self._next]

    def take(self) -> Token:
        """Return the next token and go on behind it; the end stays."""
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def since(self, at: int) -> str:
        """Return the text from a place on up to the next token."""
        return self._text[at : self.peek().at].strip()

    def is_called(self) -> bool:
        """Say whether a bracket opens behind the next token."""
        behind = self._tokens[self._next + 1 : self._next + 2]
        return [token.text for token in behind] == ["("]

    def sign(self, sign: str) -> bool:
        """Take the next token if it is this sign; say whether it was."""
        return self._accept(lambda token: token.kind == "sign" and token.text == sign)

    def word(self, word: str) -> bool:
        """Take the next token if it is this word in any case; say whether it was."""
        return self._accept(lambda token: token.kind == "name" and token.text.lower() == word)

    def expect(self, sign: str) -> None:
        """Take this sign."""
        if not self.sign(sign):
            raise self.unexpected(self.peek(), repr(sign))

    def expect_word(self, word: str) -> None:
        """Take this word."""
        if not self.word(word):
            raise self.unexpected(self.peek(), word)

    def expect_end(self, wanted: str) -> None:
        """Insist that nothing is left. wanted: what else could stand here."""
        if self.peek().kind != "end":
            raise self.unexpected(self.peek(), f"{wanted} or the end")

    def refusal(self, why: str) -> BadRequest:
        """Return the error that says so of this text."""
        return BadRequest(f"{self.subject}: {why}")

    def unexpected(self, token: Token, wanted: str) -> BadRequest:
        """Return the error for a token that stands where something else should."""
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
            raise BadRequest(f"{subject}: {text[at:].strip()[:20]!r} at {at} is not understood")
        yield Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup))
        at = match.end()
    yield Token("end", "", len(text))
