"""The blocking client, written from the source of the asynchronous one.

    python -m tests.blocking_twin      # Writes the generated modules anew.

Each public method becomes one that runs it on a portal (docstore/client/portal.py): it waits for a
coroutine, iterates over an asynchronous iterator, and wraps an object that has a twin in the twin.
"""

import ast
import builtins
import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

from tests.source import ROOT

PARTS = {
    "Lease": "leases", "Lock": "elections", "Election": "elections", "Role": "roles",
    "ConsumerGroup": "groups", "Producer": "producer",
}  # fmt: skip
"""Class -> its module in docstore.client."""
FILES = {"blocking_parts": PARTS, "blocking": {"Client": "client"}}
"""Generated module -> the classes whose twins it has."""
ABOUT = {
    "blocking_parts": "Twins of what the blocking client makes",
    "blocking": "The blocking client, for programs without an event loop",
}
LEFT_OUT = {
    "once", "to", "request", "events", "keep", "happened", "calls_back", "while_leading", "records",
}  # fmt: skip
"""Methods that only parts of the asynchronous client call, or that need its loop."""
KEPT = {("ConsumerGroup", "events"), ("Role", "events")}
ITERATORS = ("AsyncIterator", "AsyncGenerator")
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Method(NamedTuple):
    """A method, and the module in which it is written."""

    node: Function
    module: str


def methods(owner: type) -> dict[str, Method]:
    """Return the methods of a class and of its bases in the product."""
    found: dict[str, Method] = {}
    for each in owner.__mro__:
        if each.__module__.startswith("docstore.client"):
            tree = ast.parse(inspect.getsource(import_module(each.__module__)))
            (body,) = [
                node.body for node in tree.body
                if isinstance(node, ast.ClassDef) and node.name == each.__name__
            ]  # fmt: skip
            for node in body:
                if isinstance(node, Function):
                    found.setdefault(node.name, Method(node, each.__module__))
    return found


class Unquoted(ast.NodeTransformer):
    """Takes the quotes off annotations."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.parse(node.value, mode="eval").body if isinstance(node.value, str) else node


def unquoted(node: ast.expr | None) -> ast.expr | None:
    found = None if node is None else Unquoted().visit(node)
    assert found is None or isinstance(found, ast.expr)
    return found


class Writer:
    """Writes the twins of some classes, and the imports that their annotations need."""

    def __init__(self) -> None:
        self.imports = {"from docstore.client.portal import Found, Held, Opened"}

    def twin(self, name: str, module: str) -> str:
        """Return the source of a class."""
        owner = getattr(import_module(f"docstore.client.{module}"), name)
        self.imports.add(f"from docstore.client.{module} import {name} as Async{name}")
        base = "Opened" if name == "Client" else "Held"
        lines = [
            f"class {name}({base}[Async{name}]):",
            f'    """Blocking twin of `docstore.client.{module}.{name}`."""',
        ]
        found = methods(owner)
        if name == "Client":
            lines.append(self.constructor(found["__init__"]))
        for each, method in found.items():
            is_left_out = each in LEFT_OUT and (name, each) not in KEPT
            if each == "__aiter__" or not (each.startswith("_") or is_left_out):
                lines.append(self.method(method))
        return "\n\n".join(lines)

    def constructor(self, method: Method) -> str:
        arguments, passed = self.arguments(method)
        about = (ast.get_docstring(method.node) or "").replace("\n", "\n        ")
        about = "\n".join(line.rstrip() for line in about.split("\n"))
        return "\n".join([
            f"    def __init__({arguments}) -> None:", f'        """{about}', '        """',
            f"        super().__init__(AsyncClient({passed}))",
        ])  # fmt: skip

    def method(self, method: Method) -> str:
        """Return the source of one method."""
        node, lines = method.node, list[str]()
        arguments, passed = self.arguments(method)
        is_property = any(ast.unparse(each) == "property" for each in node.decorator_list)
        call = f"self.twin.{node.name}" + ("" if is_property else f"({passed})")
        returns = unquoted(node.returns)
        assert returns is not None
        self.needs(returns, method.module)
        text, body = self.body(node, returns, call)
        about = (ast.get_docstring(node) or "Iterate over the records.").partition("\n\n")[0]
        about = about.replace("async with", "with")
        name = {"__aiter__": "__iter__"}.get(node.name, node.name)
        lines = ["    @property"] if is_property else []
        lines += [f"    def {name}({arguments}) -> {text}:", f'        """{about}"""', body]
        return "\n".join(lines)

    def body(self, node: Function, returns: ast.expr, call: str) -> tuple[str, str]:
        """Return the annotation of a method, and its statement."""
        text = ast.unparse(returns)
        generic = ast.unparse(returns.value) if isinstance(returns, ast.Subscript) else ""
        if generic in ITERATORS:
            assert isinstance(returns, ast.Subscript)
            of = returns.slice
            one = ast.unparse(of.elts[0] if isinstance(of, ast.Tuple) else of)
            self.imports.add("from collections.abc import Generator, Iterator")
            is_plain = node.name == "__aiter__"  # Other generators have a `close`.
            text = f"Iterator[{one}]" if is_plain else f"Generator[{one}, None, None]"
            return text, f"        return self._portal.iterate({call})"
        if text in {*PARTS, "Found"}:
            return text, f"        return {text}(self._portal, {call})"
        if generic == "asyncio.Future":
            self.imports.add("from concurrent.futures import Future")
            return text.removeprefix("asyncio."), f"        return self._portal.later({call})"
        if isinstance(node, ast.AsyncFunctionDef):
            call = f"self._portal.run({call})"
        return text, f"        {call}" if text == "None" else f"        return {call}"

    def arguments(self, method: Method) -> tuple[str, str]:
        """Return the parameters of a method, and the arguments of the call of its twin."""
        given = method.node.args
        passed: list[str] = []
        for each in (*given.args[1:], *given.kwonlyargs, *([given.kwarg] if given.kwarg else [])):
            each.annotation = unquoted(each.annotation)
            assert each.annotation is not None
            names = self.needs(each.annotation, method.module)
            value = f"{each.arg} and {each.arg}.twin" if names & PARTS.keys() else each.arg
            if names & PARTS.keys():
                value = f"None if {each.arg} is None else {each.arg}.twin"
            if each is given.kwarg:
                passed.append(f"**{value}")
            else:
                passed.append(value if each in given.args else f"{each.arg}={value}")
        return ast.unparse(given), ", ".join(passed)

    def needs(self, annotation: ast.expr, module: str) -> set[str]:
        """Import the names of an annotation from where their module has them; return them."""
        tree = ast.parse(inspect.getsource(import_module(module)))
        names = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
        for name in sorted(names - PARTS.keys() - {"Found", "asyncio", *ITERATORS, *dir(builtins)}):
            places = [
                node.module for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and name in {each.name for each in node.names}
            ]  # fmt: skip
            self.imports.add(f"from {places[0] if places else module} import {name}")
        return names


def generated() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each generated module."""
    for file, classes in FILES.items():
        writer = Writer()
        twins = [writer.twin(name, module) for name, module in classes.items()]
        if file == "blocking":
            writer.imports.add(
                f"from docstore.client.blocking_parts import {', '.join(sorted(PARTS))}"
            )
        head = f'"""{ABOUT[file]}.\n\nWritten by `python -m tests.blocking_twin`.\n"""'
        others = ["Found", *PARTS] if file == "blocking" else []
        named = f"__all__ = {sorted([*classes, *others])}"
        text = "\n\n".join([head, "\n".join(sorted(writer.imports)), named, *twins])
        yield f"docstore/client/{file}.py", formatted(text, file)


def formatted(text: str, file: str) -> str:
    """Return a text in the form that ruff gives it."""
    for command in (("check", "--fix", "--quiet", "--select", "I,F401"), ("format", "--quiet")):
        text = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", f"{file}.py", "-"],
            input=text, capture_output=True, text=True, check=True, cwd=ROOT, timeout=60,
        ).stdout  # fmt: skip
    return text


if __name__ == "__main__":
    for path, text in generated():
        (ROOT / path).write_text(text, "utf-8")
