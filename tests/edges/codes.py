"""The codes of problems, each with the statuses beside it in the source.

They are read from the source, in whichever file of the product they are. The status of a code with
`-` is not beside it.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from tests.source import Source, sources

Pair = tuple[ast.expr | None, ast.expr | None]
"""An expression of a status, and one of a code."""
CODE = re.compile(r"[a-z]+(-[a-z]+)*\Z")
CONSTANT = re.compile(r'^([A-Z_]+) = "([a-z]+(?:-[a-z]+)*)"', re.MULTILINE)
HINT = re.compile(r"\b[45]\d\d\b|\bcode\b|Refusal")
"""A file that names a status or a code has one of these."""
REFUSAL = {"status": ast.Constant(422), "code": ast.Constant("refused-by-service")}
"""The defaults of a `Refusal`."""


def codes() -> str:
    """Return a line for each code: its statuses, or `-`."""
    whole = [each for each in sources() if each.is_under("docstore", "gossip")]
    texts = {name: text for each in whole for name, text in CONSTANT.findall(each.text)}
    product = [each for each in whole if HINT.search(each.text)]
    takes_code = dict(place for each in product for place in _places(each))
    found: dict[str, set[int]] = defaultdict(set)
    for source in product:
        own = texts | dict(CONSTANT.findall(source.text))
        pairs = (pair for node in source.nodes for pair in _pairs(node, takes_code))
        for status, code in pairs:
            text, number = _text(code, own), _number(status)
            if text and (number or status is None):
                found[text] |= {number} if number else set()
    for number, text in _of_classes(product, texts):
        found[text].add(number)
    lines = {code: " ".join(map(str, sorted(statuses))) for code, statuses in found.items()}
    return "".join(f"{code} {lines[code] or '-'}\n" for code in sorted(lines))


def _places(source: Source) -> Iterator[tuple[str, int]]:
    """Yield functions that take a code, and which of their arguments it is."""
    for node in source.tree.body:
        if isinstance(node, ast.FunctionDef):
            names = [each.arg for each in node.args.args]
            if "code" in names:
                yield node.name, names.index("code")


def _pairs(node: ast.AST, takes_code: Mapping[str, int]) -> Iterator[Pair]:
    """Yield statuses and codes: side by side, by keyword, or as value and key; a code alone."""
    if isinstance(node, ast.Tuple):
        yield from pairwise(node.elts)
    elif isinstance(node, ast.Dict):
        yield from zip(node.values, node.keys, strict=True)
    elif isinstance(node, ast.Call):
        yield from pairwise(node.args)
        name = _name(node.func)
        named = {each.arg: each.value for each in node.keywords}
        if name == "Refusal":
            named = {**REFUSAL, **named}
        if "code" in named and name != "_replace":
            yield named.get("status"), named["code"]
        if takes_code.get(name, len(node.args)) < len(node.args):
            yield None, node.args[takes_code[name]]


def _name(node: ast.expr | None) -> str:
    """Return a name, or its last part."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.expr | None, texts: Mapping[str, str]) -> str:
    """Return the code that an expression is, "" for none."""
    value = node.value if isinstance(node, ast.Constant) else texts.get(_name(node))
    return value if isinstance(value, str) and CODE.match(value) else ""


def _number(node: ast.expr | None) -> int:
    """Return the status that an expression is, 0 for none."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if type(value) is int and 400 <= value < 600 else 0


def _of_classes(product: Iterable[Source], texts: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Yield the status and the code of each class of errors, its own or inherited ones."""
    classes = {
        node.name: node
        for source in product
        for node in source.tree.body
        if isinstance(node, ast.ClassDef)
    }

    def held(name: str, member: str) -> ast.expr | None:
        if name not in classes:
            return None
        for node in classes[name].body:
            target = getattr(node, "target", None) or next(iter(getattr(node, "targets", [])), None)
            if isinstance(node, ast.Assign | ast.AnnAssign) and _name(target) == member:
                return node.value
        found = (held(_name(base), member) for base in classes[name].bases)
        return next((each for each in found if each is not None), None)

    for name in classes:
        status, code = _number(held(name, "status")), _text(held(name, "code"), texts)
        if status and code:
            yield status, code
