"""A check that a page of docs/ and its heading exist."""

import re

from tests.source import ROOT


def is_a_place(see: str) -> bool:
    """Say whether the page and the heading of a link into docs/ exist."""
    page, _, anchor = see.partition("#")
    file = ROOT / "docs" / page
    if not file.exists():
        return False
    headings = re.findall(r"^#+ (.*)$", file.read_text("utf-8"), re.MULTILINE)
    return not anchor or anchor in {_anchor(each) for each in headings}


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
