"""How large a class may be where machines are: whoever changes a part has to know all of it."""

import ast
from collections.abc import Sequence

import pytest

from tests.source import Source, sources

METHODS_MAX = ATTRIBUTES_MAX = 25
SMALL_CLASSES = ("docstore/protocol", "docstore/streams", "docstore/sessions")
"""Where no class has more, counting what it inherits from others of the same place."""


def sizes(files: Sequence[Source]) -> dict[str, tuple[int, int]]:
    """The classes of some files, by their place: how many methods each has, and attributes.

    What is inherited counts as well, or a part that is only hidden would pass for one that is gone.
    """
    classes = [
        (source.path, node)
        for source in files
        for node in ast.walk(source.tree)
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


@pytest.mark.parametrize("place", SMALL_CLASSES)
def test_no_class_is_large(place: str) -> None:
    """Whoever changes one of its parts would have to know all of them."""
    found = sizes([file for file in sources() if file.is_under(place)])
    assert len(found) > 20
    large = {
        name: f"{methods} methods, {attributes} attributes"
        for name, (methods, attributes) in found.items()
        if methods > METHODS_MAX or attributes > ATTRIBUTES_MAX
    }
    assert not large
