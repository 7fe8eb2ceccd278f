"""Pages have valid references: links, names of files, and the records of decisions."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import plots
from tests.source import ROOT

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
RECORDS = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
INDEX = ROOT / "docs/decisions/README.md"
LINK = re.compile(r"\[[^]]*\]\((?![a-z]+:)([^)#\s]*)#?([^)\s]*)\)")
FILE = re.compile(r"`((?:bench|docs|docstore|examples|gossip|tests)/[\w/.-]+\.(?:py|md))`")
FORM = re.compile(
    r"# (\d{4}\. \S.*: \S.*)\n\nStatus: (accepted|replaced by \d{4})\nDate: 20\d\d-\d\d-\d\d\n\n"
    r"## Context\n\n\S[\s\S]*\n## Decision\n\n\S[\s\S]*\n## Consequences\n\n\S[\s\S]*"
)
TO_BE_WRITTEN = {"tests/docstore/documents/test_times.py"}
"""Files that a reader of CONTRIBUTING.md writes."""


def prose(text: str) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """Return the anchors of a page: its headings, as GitHub spells them."""
    found = set(re.findall(r'<a id="([^"]+)"', text))
    for heading in re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


def broken(page: Path, text: str) -> Iterator[str]:
    """Yield the broken links of a page."""
    for path, anchor in LINK.findall(prose(text)):
        target = page.parent / path if path else page
        is_there = target.exists()
        if is_there and anchor and target.suffix == ".md":
            is_there = anchor in anchors(text if target == page else target.read_text("utf-8"))
        if not is_there:
            yield f"{path}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken(page, page.read_text("utf-8"))) == []


def test_each_page_has_a_place_in_the_site() -> None:
    placed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text("utf-8")))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert not {page for page in pages - placed if not page.startswith("decisions/")}


def test_figures_show_the_recorded_results() -> None:
    for chart in plots.charts():
        kept = (plots.FOLDER / f"bench-{chart.name}.svg").read_text("utf-8")
        assert kept == plots.drawn(chart), "draw them anew: python -m bench.plots"


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/testing.md"])
def test_files_that_are_named_are_there(name: str) -> None:
    named = set(FILE.findall((ROOT / name).read_text("utf-8"))) - TO_BE_WRITTEN
    assert not {each for each in named if not (ROOT / each).is_file()}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name[:4])
def test_a_decision_has_its_form_and_its_line_in_the_index(record: Path) -> None:
    form = FORM.fullmatch(record.read_text("utf-8"))
    assert form, "see docs/decisions/README.md for the form"
    number, _, title = form[1].partition(". ")
    assert record.name.startswith(f"{number}-")
    lines = INDEX.read_text("utf-8").splitlines()
    assert sum(line.startswith(f"- [{number}](") for line in lines) == 1
    assert lines.count(f"- [{number}]({record.name}) {title}") == 1


def test_each_can_fail() -> None:
    text = "[a](gone.md) [b](#here) [c](#there) [d](https://x.example)\n\n## Here\n"
    assert list(broken(ROOT / "docs/index.md", text)) == ["gone.md#", "#there"]
    assert FILE.findall("`tests/gone.py`, tests/no.py, `make test`") == ["tests/gone.py"]
    record = RECORDS[0].read_text("utf-8")
    for part in ("Status: accepted\n", "## Decision\n", ": an"):
        assert part in record
        assert not FORM.fullmatch(record.replace(part, "", 1))
