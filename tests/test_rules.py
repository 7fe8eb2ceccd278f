"""Code and docs/rules.md agree: each cited rule is on the page, and each rule there is cited.

Labels are searched in comments and strings: docstrings, messages of violations, ablations.
Scenario N05 and line R21 are no rules. Named files must exist as well.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.source import ROOT, Source, sources

NUMBER = r"(0|[1-9]\d?)"
LABEL = re.compile(rf"(?<![\w%-])([A-Z]{{1,2}}){NUMBER}\b")
RANGE = re.compile(rf"(?<![\w%-])([A-Z]{{1,2}}){NUMBER}\s+to\s+\1{NUMBER}\b")
DEFINED = re.compile(rf"^- \*\*([A-Z]{{1,2}}){NUMBER}\*\* \S", re.MULTILINE)
FILE = re.compile(r"(?<![\w./])\w[\w/]*\.py\b")
PLAYED = re.compile(
    r"\b(scenario|line)s?\s+[A-Z]\d{1,2}((,\s+|\s+and\s+|\s+to\s+)[A-Z]\d{1,2})*\b", re.IGNORECASE
)

Rules = dict[str, str]
"""Label -> its letters, which name its subject."""


def rules_on(page: str) -> Rules:
    """Return the rules that a page defines."""
    return {letters + number: letters for letters, number in DEFINED.findall(page)}


def said(source: Source) -> Iterator[str]:
    """Yield the comments and strings of a file, except the numbers of reliability lines."""
    before = ["", ""]
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        is_number = before == ["line", "("]
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and not is_number):
            yield token.string
        before = [before[1], token.string]


def cited(source: Source) -> Rules:
    """Return the labels that a file cites, with all those of a range."""
    if not LABEL.search(source.text):
        return {}
    text = PLAYED.sub("", "\n".join(each.lstrip("#") for each in said(source)))
    found = {letters + number: letters for letters, number in LABEL.findall(text)}
    for letters, first, last in RANGE.findall(text):
        found |= {f"{letters}{each}": letters for each in range(int(first), int(last) + 1)}
    return found


def unknown(found: Rules, rules: Rules) -> list[str]:
    """Return the cited labels with the letters of a subject that are no rules of it."""
    subjects = set(rules.values())
    return sorted(each for each in found if each not in rules and found[each] in subjects)


def missing(source: Source) -> list[str]:
    """Return the missing files that comments and docstrings name.

    Their paths begin in the folder of the file that names them, or in one above it.
    """
    if ".py" not in source.text:
        return []
    told = [each for each in said(source) if each.startswith(("#", '"""'))]
    named = {name for each in told for name in FILE.findall(each)}
    places = [ROOT / folder for folder in Path(source.path).parents]
    return sorted(each for each in named if not any((place / each).is_file() for place in places))


@pytest.fixture(scope="module")
def house() -> list[Source]:
    return [each for each in sources() if each.is_under("docstore", "gossip", "tests")]


@pytest.fixture(scope="module")
def citations(house: list[Source]) -> dict[str, Rules]:
    """Return path -> the labels cited there."""
    own = Path(__file__).relative_to(ROOT).as_posix()
    return {each.path: cited(each) for each in house if each.path != own}


@pytest.fixture(scope="module")
def rules() -> Rules:
    return rules_on((ROOT / "docs/rules.md").read_text("utf-8"))


def test_every_rule_that_is_cited_is_on_the_page(citations: dict[str, Rules], rules: Rules) -> None:
    assert len(rules) > 100
    wrong = {path: unknown(found, rules) for path, found in citations.items()}
    assert not {path: labels for path, labels in wrong.items() if labels}


def test_every_rule_on_the_page_is_cited(citations: dict[str, Rules], rules: Rules) -> None:
    assert sorted(rules.keys() - set().union(*citations.values())) == []


def test_a_rule_is_on_the_page_once() -> None:
    labels = DEFINED.findall((ROOT / "docs/rules.md").read_text("utf-8"))
    assert len(labels) == len(set(labels))


def test_every_file_that_is_named_is_there(house: list[Source]) -> None:
    gone = {each.path: missing(each) for each in house if not each.is_under("tests")}
    assert not {path: names for path, names in gone.items() if names}


# These tests can fail

PAGE = "- **P1** Promised once.\n- **P2** Joined.\n- **RC1** Counted.\n- P3 is told elsewhere.\n"


@pytest.mark.parametrize(
    "text",
    [
        '"""Count (rule P3)."""',
        "x = 1  # As P3 says.",
        '"""Rules P1 to P3."""',
        'raise Violation(f"P3: {x}")',
        'RULES = {"counted-early": Ablation("RC2")}',
        '"""Scenario P1, but rule P3."""',
    ],
)
def test_a_rule_that_is_nowhere_is_noticed(text: str) -> None:
    assert len(unknown(cited(Source("docstore/x.py", text)), rules_on(PAGE))) == 1


@pytest.mark.parametrize(
    "text",
    [
        '"""Rules P1 and P2, RC1."""',
        '"""Scenarios P3, P4 and\nP5 to P9."""',
        "x = 1  # Reliability line P6, line P7; scenario P03.",
        '@line("P7", "what is promised")',
        'assert quote("ü") == "%P3"',
        '"""In week 2026-P47; HP3, P300."""',
        '"""Of another subject: A37, N1."""',
        "P3 = 1",
    ],
)
def test_labels_of_no_rule_are_accepted(text: str) -> None:
    assert unknown(cited(Source("docstore/x.py", text)), rules_on(PAGE)) == []


def test_rules_of_a_range_are_cited() -> None:
    assert cited(Source("docstore/x.py", '"""P1 to P3."""')).keys() == {"P1", "P2", "P3"}


def test_a_file_that_is_gone_is_noticed() -> None:
    text = '"""See `core.py`, `documents/core.py`, `docs/x.py` and `gone.py`."""\nname = "none.py"'
    assert missing(Source("docstore/documents/write_path/x.py", text)) == ["docs/x.py", "gone.py"]
