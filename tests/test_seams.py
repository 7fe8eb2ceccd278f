"""Exactly the definitions that ablations replace are marked with `# Tests replace this.`.

A rule of the protocol is a function that an ablation can replace from outside, so that a test
shows that the rule is needed (docs/testing.md). A change of its name, its parameters or its calls
has to change that test as well: the mark warns the author of the change.
"""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from docstore.documents.write_path import handle
from tests.disk import journal_ablations
from tests.gossip import test_ablations as membership
from tests.sim import (
    ablations,
    agendas_ablations,
    branching_ablations,
    sessions_ablations,
    streaming_ablations,
)
from tests.source import ROOT, Source, sources

SEAM = "  # Tests replace this."
MODULES = (
    ablations,
    agendas_ablations,
    branching_ablations,
    journal_ablations,
    membership,
    sessions_ablations,
    streaming_ablations,
)
WITHOUT_PATCHES = {"tests/sim/kafka_ablations.py", "tests/sim/groups_ablations.py"}
"""The first runs other members instead of patches; the rules of the second are in sessions."""

Seams = set[tuple[str, str]]
"""(file, name in it)."""


def marked(source: Source) -> Seams:
    """Return the marked definitions of a file. A mark is in the head of a definition."""
    found: Seams = set()
    todo: list[tuple[str, ast.AST]] = [("", source.tree)]
    while todo:
        prefix, parent = todo.pop()
        for child in ast.iter_child_nodes(parent):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name, last = prefix + child.name, child.body[0].lineno - 1
                todo.append((f"{name}.", child))
            elif isinstance(child, ast.Assign | ast.AnnAssign):
                target = child.targets[0] if isinstance(child, ast.Assign) else child.target
                name, last = prefix + ast.unparse(target), child.lineno
            else:
                continue
            head = source.text.split("\n")[child.lineno - 1 : last]
            found |= {(source.path, name) for line in head if line.endswith(SEAM)}
    assert len(found) == source.text.count(SEAM), f"a mark in {source.path} marks no definition"
    return found


def changes_of(module: ModuleType) -> Iterator[tuple[Any, str]]:
    """Yield the replacements of a file of ablations: where, and which name."""
    table = vars(module).get("ABLATIONS") or module.RULES
    for ablation in table.values():
        changes = [ablation] if isinstance(ablation, tuple) else ablation.changes
        yield from ((where, name) for where, name, _ in changes)
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "patch.object":
            where, name, *_ = node.args
            if isinstance(name, ast.Constant):
                yield getattr(module, ast.unparse(where)), name.value


def place_of(where: Any, name: str) -> tuple[str, str]:
    """Return the file and the name of its definition; ("", "") where that is not of the product."""
    if isinstance(where, str):
        where = _named(where)
    found = inspect.getattr_static(where, name)
    found = found.fget if isinstance(found, property) else found
    found = getattr(found, "__func__", found)
    is_defined = inspect.isfunction(found) or inspect.isclass(found)
    path = Path(inspect.getsourcefile(found if is_defined else where) or "")
    if not any(path.is_relative_to(ROOT / folder) for folder in ("docstore", "gossip")):
        return "", ""
    return path.relative_to(ROOT).as_posix(), found.__qualname__ if is_defined else name


def _named(dotted: str) -> Any:
    try:
        return importlib.import_module(dotted)
    except ModuleNotFoundError:
        module, _, name = dotted.rpartition(".")
        return getattr(importlib.import_module(module), name)


def test_exactly_the_patched_definitions_are_marked() -> None:
    patched = {place_of(*change) for module in MODULES for change in changes_of(module)}
    marks = set().union(
        *(marked(each) for each in sources() if each.is_under("docstore", "gossip"))
    )
    assert patched - marks == {("", "")}, (
        "replaced by an ablation, and not marked `# Tests replace this.`"
    )
    assert not marks - patched, "marked, and replaced by no ablation"


def test_no_file_of_ablations_is_left_out() -> None:
    files = {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "tests/sim").glob("*ablations.py")
    }
    known = {Path(str(module.__file__)).relative_to(ROOT).as_posix() for module in MODULES}
    assert files - known == WITHOUT_PATCHES


def test_each_can_fail() -> None:
    text = f"class A:\n    def f(self) -> int:{SEAM}\n        ...\n    def g(self): ...\nB = 1\n"
    assert marked(Source("a.py", text)) == {("a.py", "A.f")}
    assert marked(Source("a.py", text.replace("B = 1", f"B = 1{SEAM}"))) > {("a.py", "B")}
    with pytest.raises(AssertionError, match="marks no definition"):
        marked(Source("a.py", text + f"f(){SEAM}"))
    assert place_of("docstore.documents.eventual.execute", "begotten") == (
        "docstore/documents/eventual/lineage.py",
        "begotten",
    )
    assert place_of(handle, "dataclass") == ("", "")  # A name of Python's own.
