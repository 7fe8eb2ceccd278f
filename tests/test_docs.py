"""Names that users meet are in pages of docs/: settings, limits, errors, metrics, commands.

The names are read from the code, so that a new one without documentation fails here.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import pytest
import typer

from docstore.cli.app import app
from docstore.config import KEYS
from docstore.model.document_members import STORE_SET
from docstore.model.limits import Limits
from gossip.security.admission import Refused
from tests.source import ROOT, Source, sources

ELSEWHERE = ("docstore/cli", "docstore/client", "docstore/pipeline", "docstore/testing/simulation")
"""Folders that read codes of problems, and make none."""

NEVER_ANSWERED = {
    "bad-config": "ends the start",
    "other-reign": "between nodes: the machine of sessions reads anew",
    "store-broken": "ends the process",
    "store-damaged": "ends the process",
    "not-due": "the machine of agendas drops the timer or effect",
}

FAMILIES = {
    "docstore/agendas": ("service",),
    "docstore/machines": ("streams", "sessions"),
    "docstore/documents/eventual": ("protocol",),
    "docstore/runtime/links": ("peer",),
    "docstore/documents": ("protocol",),
    "docstore/reads/scans": ("scan",),
    "docstore/sessions": ("sessions",),
    "docstore/streams": ("streams",),
    "docstore/subscriptions": ("subscriptions",),
    "docstore/maintenance/upkeep": ("repair",),
    "docstore/maintenance/webhooks": ("subscriptions",),
    "gossip": ("gossip",),
}
"""Folders -> the family in the names of their counters: docstore_<family>_<name>_total."""

ALPHABETS = frozenset("wire messages elector_messages events member_events effects asking".split())
"""Files of messages, events and effects; those of gossip are in a page of their own."""

SHOWN_OTHERWISE = {
    "docstore_sessions_expiry_lag_us_total": "docstore_sessions_expiry_lag_seconds_total",
    "docstore_sessions_member_expiry_lag_us_total": (
        "docstore_sessions_member_expiry_lag_seconds_total"
    ),
    "docstore_streams_elections because ": "docstore_streams_elections_by_cause_total",
}
"""Counters that are shown under another name."""


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text("utf-8")


def missing(names: set[str], *texts: str) -> set[str]:
    """Return the names that are in no piece of code of some pages."""
    pieces = {piece for text in texts for piece in re.findall(r"`([^`\n]+)`", text)}
    return names - pieces - {word for piece in pieces for word in re.split(r"[\s,:=|{}]+", piece)}


def is_code(found: object) -> bool:
    return isinstance(found, str) and re.fullmatch(r"[a-z]+(-[a-z]+)*", found) is not None


def is_status(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and 400 <= node.value < 600


def codes_in(source: Source) -> Iterator[object]:
    """Yield the codes of problems: beside a status, or where a value is called `code`."""
    constants = {
        ast.unparse(node.targets[0]): node.value
        for node in source.tree.body
        if isinstance(node, ast.Assign)
    }
    functions = [node for node in source.nodes if isinstance(node, ast.FunctionDef)]
    names = {each.name: [arg.arg for arg in each.args.args] for each in functions}
    takes_code = {name: each.index("code") for name, each in names.items() if "code" in each}
    for node in source.nodes:
        found: list[ast.expr | None] = []
        if isinstance(node, ast.Call | ast.Tuple):
            row = node.args if isinstance(node, ast.Call) else node.elts
            found += [code for status, code in pairwise(row) if is_status(status)]
        if isinstance(node, ast.Call):
            found += [each.value for each in node.keywords if each.arg == "code"]
            place = takes_code.get(ast.unparse(node.func), len(node.args))
            found += node.args[place : place + 1]
        elif isinstance(node, ast.Dict):
            found += [k for k, v in zip(node.keys, node.values, strict=True) if is_status(v)]
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "code":
            found.append(node.value)
        elif isinstance(node, ast.arguments):
            named = zip(node.kwonlyargs, node.kw_defaults, strict=True)
            found += [default for each, default in named if each.arg == "code"]
        for each in found:
            value = constants.get(each.id, each) if isinstance(each, ast.Name) else each
            yield value.value if isinstance(value, ast.Constant) else ""


def metrics_in(source: Source) -> Iterator[str]:
    """Yield the names of metrics; of a composed name, its beginning."""
    families = [each for folder, each in FAMILIES.items() if source.is_under(folder)]
    for node in source.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = re.match(r"((?:docstore|process)_[a-z_]+)(?:\{|\Z)", node.value)
            yield from [found[1]] if found else []
        counted = node.target if isinstance(node, ast.AugAssign) else None
        if isinstance(counted, ast.Subscript) and ast.unparse(counted.value).endswith("counters"):
            name = counted.slice
            for family in families[0]:
                if isinstance(name, ast.Constant):
                    yield f"docstore_{family}_{name.value}_total"
                elif isinstance(name, ast.JoinedStr):
                    yield f"docstore_{family}_{ast.literal_eval(name.values[0])}"


def commands_of(group: typer.core.TyperGroup, before: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, typer.core.TyperGroup):
            yield from commands_of(command, f"{before}{name} ")
        else:
            yield before + name


@pytest.fixture(scope="module")
def product() -> list[Source]:
    return [each for each in sources() if each.is_under("docstore", "gossip")]


def test_settings_and_limits() -> None:
    table = page("operations").partition("| setting | default |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`[^|]*`) \|", table, re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert told == set(KEYS) - {limit.name for limit in fields(Limits)}
    for limit in fields(Limits):
        row = f"| `{limit.name}` | {int(limit.default):,} |"  # type: ignore[arg-type]
        assert row in page("operations"), f"docs/operations.md has no {row}"


def test_codes_of_problems(product: list[Source]) -> None:
    makers = (each for each in product if not each.is_under(*ELSEWHERE))
    codes = {code for each in makers for code in codes_in(each) if is_code(code)}
    assert NEVER_ANSWERED.keys() <= codes
    answered = {str(code) for code in codes - NEVER_ANSWERED.keys()}
    assert not missing(answered, page("http"), page("streams"), page("ownership"))
    rows = re.findall(r"^\| [45][^|]*\|([^|]*)\|", page("http"), re.MULTILINE)
    assert not {code for row in rows for code in re.findall(r"`([^`]+)`", row)} - answered


def test_metrics(product: list[Source]) -> None:
    found = {name for each in product for name in metrics_in(each)} - SHOWN_OTHERWISE.keys()
    found |= {f"docstore_gossip_{refused.value}_total" for refused in Refused}
    whole = {name for name in found if not name.endswith("_")}
    assert not missing(whole, page("metrics"))
    told = set(re.findall(r"\b((?:docstore|process)_[a-z_]+[a-z])`", page("metrics")))
    begun = tuple(found - whole)
    assert not {name for name in told - whole if not name.startswith(begun)}, "not counted"
    assert not {each for each in begun if not any(name.startswith(each) for name in told)}


def test_members_of_documents() -> None:
    assert not missing(STORE_SET, page("http"))


def test_messages_events_and_effects(product: list[Source]) -> None:
    """Check that the page names all classes in the files of alphabets."""
    alphabets = [
        each for each in product if Path(each.path).stem in ALPHABETS and each.is_under("docstore")
    ]
    said = {
        node.name for each in alphabets for node in each.tree.body if isinstance(node, ast.ClassDef)
    }
    assert len(alphabets) >= 12
    assert not missing(said, page("glossary"))


def test_commands() -> None:
    main = typer.main.get_command(app)
    assert isinstance(main, typer.core.TyperGroup)
    assert not missing(set(commands_of(main)), page("commands"))


def test_commands_of_the_pipeline() -> None:
    """Read the commands, without an import: they need Spark."""
    text = (ROOT / "docstore/pipeline/__main__.py").read_text("utf-8")
    named = re.findall(r'^@app\.command\((?:name="\w+")?\)\ndef (\w+?)_?\(', text, re.MULTILINE)
    assert len(named) == text.count("@app.command(") - text.count("hidden=True")
    untold = [name for name in named if f"docstore spark {name}" not in page("pipeline")]
    assert not untold


def test_each_can_fail() -> None:
    assert missing({"a", "b c", "d", "e"}, "`b c` and e, `a: 1`") == {"d", "e"}
    text = (
        "X = 'x-x'\nf(404, 'a-b')\n_refused = (409, 'c')\ng(1, code='d')\nR(code=X)\n"
        "S = {'e-f': 503}\ndef h(it, code, *, more): ...\nh(it, 'g-h')\n"
        "class E:\n    code = 'i'\ndef k(*, code='j'): ...\nf(200, 'no')\n"
    )
    codes = {code for code in codes_in(Source("docstore/a.py", text)) if is_code(code)}
    assert codes == {"a-b", "c", "d", "x-x", "e-f", "g-h", "i", "j"}
    text = "self.counters['a'] += 1\nx = self.counters['b']\ny = 'docstore_c{peer=1}'\n"
    metrics = set(metrics_in(Source("docstore/runtime/links/a.py", text)))
    assert metrics == {"docstore_peer_a_total", "docstore_c"}
