"""The documents and the tables of docs/conditions.md."""

import json
import re
from typing import Any, NamedTuple

from tests.source import ROOT

PAGE = (ROOT / "docs" / "conditions.md").read_text("utf-8")
ROW = re.compile(r"^\| (`+) ?(.+?) ?\1 \| ([\d ]*?) ?\|$", re.MULTILINE)
FACTORY = "/films"


class Line(NamedTuple):
    """A line of a table. names: of the documents that the condition finds."""

    condition: str
    names: list[str]


def documents() -> dict[str, dict[str, Any]]:
    """Return link -> document."""
    block = re.search(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert block is not None
    found = [json.loads(line) for line in block[1].splitlines()]
    return {each.pop("documentSelfLink"): each for each in found}


LINES = [Line(each[1], each[2].split()) for each in (row.groups() for row in ROW.finditer(PAGE))]


def names_of(links: Any) -> list[str]:
    """Return the names of documents in order."""
    return sorted(link.removeprefix(f"{FACTORY}/") for link in links)
