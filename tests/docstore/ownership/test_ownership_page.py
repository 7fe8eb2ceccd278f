"""The test that docs/ownership.md shows works."""

import re
from typing import Any

import pytest

from docstore.ownership.elector import Elector
from docstore.testing.simulation.electors import Violation
from tests.docstore.ownership.lacking import Stubborn
from tests.source import ROOT

PAGE = (ROOT / "docs/ownership.md").read_text("utf-8")
[SHOWN] = (
    block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "Electors" in block
)


def shown() -> Any:
    names: dict[str, Any] = {}
    exec(compile(SHOWN, "docs/ownership.md", "exec"), names)
    [test] = (each for name, each in names.items() if name.startswith("test_"))
    return test


def test_the_test_of_the_page_passes() -> None:
    shown()()
    assert "Electors(3, seed=7, loss=0.02)" in SHOWN


def test_the_test_of_the_page_fails_without_the_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for rule in ("leads", "_check_quorum"):
        monkeypatch.setattr(Elector, rule, getattr(Stubborn, rule))
    with pytest.raises(Violation):
        shown()()
