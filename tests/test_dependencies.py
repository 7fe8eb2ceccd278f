"""Packages that pyproject.toml declares are used, and the locks name them; each test can fail."""

import re
import tomllib
from collections.abc import Iterable, Iterator

import pytest

from tests.source import ROOT, sources

PROJECT, LOCK, MORE = (
    ROOT / name for name in ("pyproject.toml", "requirements.lock", "requirements-more.lock")
)
MODULES = {
    "kafka-python": "kafka",
    "opentelemetry-api": "opentelemetry",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
    "opentelemetry-sdk": "opentelemetry",
    "pytest-xdist": "xdist",
    "pyyaml": "yaml",
    "types-jsonschema": "jsonschema",
}
"""Package -> the name by which it is imported, where the two differ."""

STARTED = {
    "coverage": ("Makefile", "-m coverage run"),
    "ipykernel": ("tests/pipeline/test_notebook.py", 'kernel_name="python3"'),
    "mkdocs-material": ("mkdocs.yml", "name: material"),
    "mkdocstrings": ("mkdocs.yml", "- mkdocstrings:"),
    "mypy": ("Makefile", "/mypy --strict"),
    "setuptools": ("setup.py", "from setuptools import setup"),
    "ruff": ("Makefile", "/ruff check"),
}
"""Package that is started, not imported -> the file that starts it, and with which words."""

_IMPORT = re.compile(
    r"^\s*(?:import|from)\s+(\w+)"
    r"|(?:importorskip|find_spec|importlib\.import_module|\bfiles)\(\"(\w+)",
    re.MULTILINE,
)


def names_in(requirements: Iterable[str]) -> Iterator[str]:
    """Yield the name of each requirement, without extras, versions and markers."""
    for requirement in requirements:
        found = re.match(r"[\w.-]+", requirement)
        assert found, requirement
        yield found[0].lower().replace("_", "-")


def imported_by(text: str) -> set[str]:
    """Return the top-level modules that a Python text imports, or looks up by name."""
    return {module for found in _IMPORT.findall(text) for module in found if module}


def idle(declared: set[str], imported: set[str]) -> set[str]:
    """Return the packages that are declared, and neither imported nor started."""
    return {
        name
        for name in declared - STARTED.keys()
        if MODULES.get(name, name.replace("-", "_")) not in imported
    }


def chosen_in(lock: str) -> set[str]:
    """Return the packages in a lock that we declare, without those that only they need."""
    pattern = r"^(\S+?)==[^#]*# via .*docstore \(pyproject"
    return set(names_in(re.findall(pattern, lock, re.MULTILINE)))


def pinned_in(lock: str) -> list[tuple[str, str]]:
    """Return each name of a lock, with its version and hashes."""
    return re.findall(r"^([a-z][\w.-]*)(==\S+(?: \\\n    --hash=\S+)*)", lock, re.MULTILINE)


def without_hash(lock: str) -> list[str]:
    """Return the packages that pip would not compare with a hash."""
    return [name + rest for name, rest in pinned_in(lock) if "--hash=sha256:" not in rest]


@pytest.fixture(scope="module")
def declared() -> set[str]:
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    return {name for group in groups for name in names_in(group)}


def test_declared_packages_are_used(declared: set[str]) -> None:
    texts = [source.text for source in sources()]
    assert not idle(declared, set().union(*map(imported_by, texts)))


def test_packages_said_to_be_started_are_started(declared: set[str]) -> None:
    assert STARTED.keys() | MODULES.keys() <= declared
    for path, words in STARTED.values():
        assert words in (ROOT / path).read_text("utf-8"), f"{path} does not say {words}"


def test_the_locks_name_the_declared_packages(declared: set[str]) -> None:
    extras = tomllib.loads(PROJECT.read_text("utf-8"))["project"]["optional-dependencies"]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    apart, *_ = re.findall(r"^MORE_EXTRAS := (.*)$", makefile, re.MULTILINE)
    more = set(names_in(each for extra in apart.split() for each in extras[extra]))
    assert chosen_in(LOCK.read_text("utf-8")) == declared - more
    assert more <= set(names_in(each[0] for each in pinned_in(MORE.read_text("utf-8"))))


def test_each_has_a_hash_and_one_version() -> None:
    lock, more = LOCK.read_text("utf-8"), MORE.read_text("utf-8")
    image = (ROOT / "examples/deployment/requirements.txt").read_text("utf-8")
    assert not without_hash(lock)
    assert not without_hash(more)
    pinned = dict(pinned_in(lock))
    assert all(pinned.get(name, pin) == pin for name, pin in pinned_in(more))
    assert set(pinned_in(image)) <= pinned.items()
    project = tomllib.loads(PROJECT.read_text("utf-8"))
    needed = project["project"]["dependencies"] + project["build-system"]["requires"]
    assert set(names_in(needed)) <= set(names_in(each[0] for each in pinned_in(image)))


def test_each_can_fail() -> None:
    text = 'import a.b\ndef f():\n    from c import d\nx = files("e_f")\n# import g\n"from h"'
    assert imported_by(text) == {"a", "c", "e_f"}
    assert idle({"a", "c", "e-f", "g", "ruff"}, imported_by(text)) == {"g"}
    assert list(names_in(["a[b]>=1; x", "c_d"])) == ["a", "c-d"]
    lock = (
        "a==1 \\\n    --hash=sha256:0\n    # via b\nc==2\n    # via docstore (pyproject.toml), b\n"
    )
    assert chosen_in(lock) == {"c"}
    assert without_hash(lock) == ["c==2"]
    assert pinned_in(lock) == [("a", "==1 \\\n    --hash=sha256:0"), ("c", "==2")]
