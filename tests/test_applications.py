"""The applications among the examples: they survive kills, and have right types.

pyright is no dependency; see decision 88.
"""

import ast
import subprocess
import sys

import pytest

from tests.docstore.http.generated.conftest import in_venv
from tests.source import ROOT

EXAMPLES = ROOT / "examples"
APPLICATIONS = ("live_page", "orders", "tasks")
PYRIGHT = "pyright==1.1.414"


@pytest.mark.slow  # Continuous integration plays every example by itself (.ci/run).
@pytest.mark.parametrize("name", APPLICATIONS)
def test_an_application_runs_while_two_nodes_are_killed(name: str) -> None:
    command = (sys.executable, EXAMPLES / f"{name}.py")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("kill") >= 2, done.stdout


@pytest.mark.parametrize("name", APPLICATIONS)
def test_an_application_repeats_nothing_by_itself(name: str) -> None:
    tree = ast.parse((EXAMPLES / f"{name}.py").read_text("utf-8"))
    loops = [each for each in ast.walk(tree) if isinstance(each, ast.While | ast.For)]
    assert not [
        handler
        for loop in loops
        for handler in ast.walk(loop)
        if isinstance(handler, ast.ExceptHandler)
    ]


@pytest.mark.thorough  # It installs pyright.
def test_types_of_examples_are_sound() -> None:
    files = sorted(EXAMPLES.glob("*.py"))
    assert not [file.name for file in files if "type: ignore" in file.read_text("utf-8")]
    binaries = in_venv("pyright", PYRIGHT)
    for command in (
        [sys.executable, "-m", "mypy", "--strict"],
        [binaries / "pyright", "--pythonpath", sys.executable],
    ):
        done = subprocess.run(
            [*command, *files], capture_output=True, text=True, check=False, timeout=300, cwd=ROOT
        )
        assert done.returncode == 0, done.stdout
