"""Nothing changes at an edge unless its golden file changes with it: HTTP, commands, metrics."""

import json
from difflib import unified_diff

import pytest

from tests.edges.pinned import GOLDEN, TEXTS, TRACES
from tests.edges.worlds import WORLDS, traced

LINES_SHOWN = 60
AGAIN = "If the change is meant: python -m tests.edges, and commit the golden files with it."
PINNED = json.loads(TRACES.read_text("utf-8"))
TRACES_AGAIN = "If the change is meant: python -m tests.edges --pin-traces, and commit traces.json."


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_text_matches_its_golden_file(name: str) -> None:
    pinned, found = (GOLDEN / name).read_text("utf-8"), TEXTS[name]()
    if found != pinned:
        changes = unified_diff(
            pinned.splitlines(), found.splitlines(), "pinned", "found", "", "", 0
        )
        shown = [line[:200] for line, _ in zip(changes, range(LINES_SHOWN), strict=False)]
        pytest.fail("\n".join([f"golden/{name}:", *shown, AGAIN]))


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:coroutine")  # Whole nodes are ended in the middle.
@pytest.mark.parametrize("world", sorted(WORLDS))
def test_a_seed_matches_its_pinned_trace(world: str) -> None:
    found = {seed: traced(world, int(seed)) for seed in PINNED[world]}
    assert found == PINNED[world], TRACES_AGAIN
