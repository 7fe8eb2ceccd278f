"""Nothing changes at an edge unless its golden file changes with it: HTTP, commands, metrics."""

from difflib import unified_diff

import pytest

from tests.edges.pinned import GOLDEN, TEXTS

LINES_SHOWN = 60
AGAIN = "If the change is meant: python -m tests.edges, and commit the golden files with it."


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_text_is_what_it_was(name: str) -> None:
    pinned, found = (GOLDEN / name).read_text("utf-8"), TEXTS[name]()
    if found != pinned:
        changes = unified_diff(
            pinned.splitlines(), found.splitlines(), "pinned", "found", "", "", 0
        )
        shown = [line[:200] for line, _ in zip(changes, range(LINES_SHOWN), strict=False)]
        pytest.fail("\n".join([f"golden/{name}:", *shown, AGAIN]))
