"""One Python file as the house rules see it, and its imports: direct ones, and those of others.

Everything is read with `ast`; nothing of the project is imported.
"""

import ast
import fnmatch
import gc
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_OTHER_DIGITS = re.compile(
    r"\\d|\.is(digit|numeric)\(|(?<!\.isascii\(\) and )(?<![\w.])[\w.]+\.isdecimal\("
)
FOLDERS = ("gossip", "docstore", "tests", "examples", "bench")


@dataclass(frozen=True)
class Source:
    """One Python file: its path, relative to the root, and its text."""

    path: str
    text: str

    @property
    def module(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @cached_property
    def tree(self) -> ast.Module:
        # CPython 3.11 miscounts its recursion when the collector runs a finalizer meanwhile.
        gc.disable()
        try:
            return ast.parse(self.text, self.path)
        finally:
            gc.enable()

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Return all nodes of the tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def imports(self) -> list[tuple[int, str]]:
        """Return every import, those in functions included, as (line, imported dotted name)."""
        return [found for node in self.nodes for found in self._named_by(node)]

    @cached_property
    def imports_at_once(self) -> list[tuple[int, str]]:
        """Return the imports of the file's own import: not in functions, not for types only."""
        found: list[tuple[int, str]] = []
        todo: list[ast.AST] = [self.tree]
        while todo:
            node = todo.pop()
            found += self._named_by(node)
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                todo += node.orelse if _is_for_types(node) else ast.iter_child_nodes(node)
        return found

    def _named_by(self, node: ast.AST) -> Iterator[tuple[int, str]]:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = self.path.split("/")[: -node.level] if node.level else []
            module = ".".join([*package, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)

    def is_one_of(self, patterns: tuple[str, ...]) -> bool:
        return any(fnmatch.fnmatch(self.path, pattern) for pattern in patterns)

    def is_under(self, *folders: str) -> bool:
        return any(self.path.startswith(folder + "/") for folder in folders)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def names(dotted: str, *modules: str) -> bool:
    """Say whether `dotted` is one of `modules` or a name inside it."""
    return any(dotted == module or dotted.startswith(module + ".") for module in modules)


def other_digits(source: Source) -> list[int]:
    """Return the lines in which digits of other alphabets pass for a number."""
    lines = enumerate(source.text.splitlines(), 1)
    return [number for number, line in lines if _OTHER_DIGITS.search(line)]


def sources() -> list[Source]:
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    found = (_source_at(file.relative_to(ROOT).as_posix()) for file in files)
    return [source for source in found if source is not None]


def circle_of(files: Sequence[Source]) -> list[str]:
    """Return modules of which each imports the next, for types or late too; [] if there are none.

    The first and the last are the same.
    """
    modules = {file.module for file in files}
    graph = TopologicalSorter[str]()
    for file in files:
        for _, name in file.imports:
            imported = name if name in modules else name.rpartition(".")[0]
            if imported in modules and imported != file.module:
                graph.add(file.module, imported)
    try:
        graph.prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@cache
def reached(dotted: str) -> frozenset[str]:
    """Return all that an import of `dotted` imports: dotted names, its own among them."""
    found: set[str] = set()
    todo = [dotted]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += [each for file in _files_of(name) for _, each in file.imports_at_once]
    return frozenset(found)


def _files_of(dotted: str) -> Iterator[Source]:
    """Return the files that an import of our names runs: the module, and its packages."""
    parts = dotted.split(".")
    for end in range(1, len(parts) + 1):
        stem = "/".join(parts[:end])
        found = _source_at(f"{stem}/__init__.py") or _source_at(f"{stem}.py")
        if found is not None:
            yield found


@cache
def _source_at(path: str) -> Source | None:
    file = ROOT / path
    return Source(path, file.read_text("utf-8")) if file.is_file() else None


def sizes(files: Sequence[Source]) -> dict[str, tuple[int, int]]:
    """Return the classes of some files, by their place, with numbers of methods and attributes.

    Inherited ones count as well: else a part that is only hidden would count as removed.
    """
    classes = [
        (source.path, node)
        for source in files
        for node in source.nodes
        if isinstance(node, ast.ClassDef)
    ]
    named = {node.name: node for _, node in classes}
    found = {}
    for path, whole in classes:
        methods: set[str] = set()
        attributes: set[str] = set()
        todo = [whole]
        while todo:
            node = todo.pop()
            todo += [named[base] for base in map(ast.unparse, node.bases) if base in named]
            for member in node.body:
                if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                    methods.add(member.name)
                elif isinstance(member, ast.AnnAssign):
                    attributes.add(ast.unparse(member.target))
            attributes |= assigned_to_self(node)
        found[f"{path}::{whole.name}"] = (len(methods), len(attributes))
    return found


def assigned_to_self(node: ast.ClassDef) -> set[str]:
    return {
        target.attr
        for target in ast.walk(node)
        if isinstance(target, ast.Attribute)
        and isinstance(target.ctx, ast.Store)
        and ast.unparse(target.value) == "self"
    }
