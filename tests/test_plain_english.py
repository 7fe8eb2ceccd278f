"""Patterns that make a text hard to read at first sight are counted; the limits only fall.

Counted are docstrings, comments and strings of the product and of the tests, and the pages of
docs/. Hard to read are machines that are called *whoever*, and sentences that begin with a relative
clause (*What*, *Who*) or a dangling preposition (*Of*, *Behind*).
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.source import ROOT, Source, sources

OPENERS = r"(?:What|Who(?:ever|se)?|Of|Behind|Beside|Beyond)\b"
OPENING = re.compile(rf"(?:\A|(?<=[.!?] )|(?<=\n\n))\W{{0,3}}{OPENERS}")
WORDS = re.compile(
    r"\b(?:whoever|nobody|somebody|everybody|let(?:s|ting)? go|so (?:many|long|often)"
    r"|(?:is|are|be|being|was|were) told|se(?:e|es|en|eing) to it)\b",
    re.IGNORECASE,
)

LIMITS = {"tests/docstore": 62}  # Names of users and of absent documents, such as "nobody".
"""Folder, or page -> how many patterns it may have. Lower a limit when a text became clearer."""
SLACK = 4


def texts_of(source: Source) -> Iterator[str]:
    """Yield the docstrings, strings and comments of a file, each on one line."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"\s*\n(?!\n)\s*", " ", node.value)
    lines: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1:
                yield " ".join(lines)
                lines = []
            lines.append(token.string.lstrip("# "))
            last = token.start[0]
    yield " ".join(lines)


def patterns_in(text: str) -> int:
    return len(OPENING.findall(text)) + len(WORDS.findall(text))


def may_have_patterns(source: Source) -> bool:
    """Say, without parsing, whether a file may have a pattern: most files have none."""
    flat = re.sub(r"[\s#\"']+", " ", source.text)
    return bool(WORDS.search(flat) or re.search(OPENERS, flat))


def counted() -> Counter[str]:
    """Count the patterns of each folder and page."""
    found: Counter[str] = Counter()
    for source in sources():
        is_own = source.path == "tests/test_plain_english.py"  # It has the patterns themselves.
        is_counted = source.is_under("docstore", "gossip", "tests") and not is_own
        if is_counted and may_have_patterns(source):
            place = "/".join(source.path.split("/")[:2])
            place = "gossip" if source.is_under("gossip") else place
            found[place] += sum(map(patterns_in, texts_of(source)))
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        name = page.relative_to(ROOT).as_posix()
        place = "docs/decisions" if name.startswith("docs/decisions/") else name
        found[place] += patterns_in(page.read_text("utf-8"))
    return found


def test_no_text_becomes_harder_to_read() -> None:
    found = counted()
    harder = {place: count for place, count in found.items() if count > LIMITS.get(place, SLACK)}
    assert not harder, f"write it in plain English (CONTRIBUTING.md): {harder}"
    lower = {place: found[place] for place in LIMITS if found[place] + SLACK < LIMITS[place]}
    assert not lower, f"lower the limits to {lower}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What is asked.", 1),
        ("Return it. Of the newest.", 1),
        ("Tell whoever waits, if somebody does.", 2),
        ("Rows are let go of; the client is told.", 2),
        ("Wait so long. See to it.", 2),
        ("The owner evicts what no client needs. Whole rows are kept.", 0),
    ],
)
def test_patterns_are_found(text: str, found: int) -> None:
    assert patterns_in(text) == found


def test_docstrings_strings_and_comments_are_read() -> None:
    text = '"""Of a."""\nx = "is told"  # Who waits.\n# nobody\n# else\n'
    assert sum(map(patterns_in, texts_of(Source("docstore/x.py", text)))) == 4
