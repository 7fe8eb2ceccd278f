"""Tests of the asynchronous client, rewritten for the blocking one.

`await x` becomes `x`, `async for` becomes `for`, and so on. A test that uses asyncio for anything
but threads is left out, since several things must happen at once; so is one that starts commands.
"""

import ast
from typing import Any

from tests.source import ROOT

FOLDER = ROOT / "tests" / "docstore" / "client"
NAMES = {
    "aclosing": "closing", "anext": "next", "aiter": "iter", "AsyncIterator": "Iterator",
}  # fmt: skip
LEFT_OUT = {
    "test_use_outside_of_its_block_is_an_error",
    "test_an_empty_event_id_is_refused",
}
"""Tests of messages and of plain requests that only the asynchronous client has."""
IMPORTS = ast.parse("from docstore.client.blocking import Client, Election, Lease, Lock").body


class Blocking(ast.NodeTransformer):
    """Rewrites a module."""

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        parts = {name: getattr(node, name) for name in node._fields}
        return self.generic_visit(ast.copy_location(ast.FunctionDef(**parts), node))

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        parts = {name: getattr(node, name) for name in node._fields}
        return self.generic_visit(ast.copy_location(ast.For(**parts), node))

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST:
        parts = {name: getattr(node, name) for name in node._fields}
        return self.generic_visit(ast.copy_location(ast.With(**parts), node))

    def visit_Await(self, node: ast.Await) -> ast.AST:
        found: ast.AST = self.visit(node.value)
        return found

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        node.is_async = 0
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.copy_location(ast.Name(NAMES.get(node.id, node.id), node.ctx), node)

    def visit_alias(self, node: ast.alias) -> ast.AST:
        return ast.copy_location(ast.alias(NAMES.get(node.name, node.name), node.asname), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node.attr = "close" if node.attr == "aclose" else node.attr
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace `asyncio.to_thread(f, x)` by `f(x)`."""
        if ast.unparse(node.func) == "asyncio.to_thread":
            node = ast.copy_location(ast.Call(node.args[0], node.args[1:], node.keywords), node)
        return self.generic_visit(node)


def rewritten(name: str) -> dict[str, Any]:
    """Return the names of a test module, with the tests that the blocking client can run."""
    path = FOLDER / f"{name}.py"
    tree = ast.parse(path.read_text("utf-8"))
    tree.body = [each for each in tree.body if not is_blocking_test(each)]
    tree = Blocking().visit(tree)
    imports = max(n for n, each in enumerate(tree.body) if isinstance(each, ast.ImportFrom)) + 1
    kept = without_a_loop(tree.body[imports:])
    tree.body = [*tree.body[:imports], *IMPORTS, *kept]
    names: dict[str, Any] = {"__name__": f"tests.docstore.client.blocking.{name}"}
    exec(compile(ast.fix_missing_locations(tree), str(path), "exec"), names)
    return {each: value for each, value in names.items() if not each.startswith("__")}


def is_blocking_test(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test_")


def without_a_loop(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return statements without the functions that need asyncio or commands."""
    left_out = {"asyncio", "subprocess", "SERVER", *LEFT_OUT}
    for each in body * 2:  # A test may use a function that is left out.
        if isinstance(each, ast.FunctionDef) and left_out & names_in(each):
            left_out.add(each.name)
    return [each for each in body if getattr(each, "name", "") not in left_out]


def names_in(node: ast.stmt) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
