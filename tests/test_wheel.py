"""The wheel of this project, in an environment of its own, beside another `gossip`.

PyPI has another project of that name: in any order of installation and removal, the other one
stays whole.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest

from docstore.cli.manual import COMPLETIONS, man_page
from docstore.http.console.files import PATHS
from tests.source import ROOT

pytestmark = pytest.mark.thorough

THEIRS = {
    "gossip/__init__.py": "WHOSE = 'theirs'\n",
    "gossip/config.py": "WHOSE = 'theirs'\n",
    "gossip/errors.py": "raise ImportError('nobody may import theirs for ours')\n",
}
STARTS = """
import sys
import docstore.node, docstore.node.members.membership, docstore.gossip.agent
assert "gossip" not in sys.modules, "ours imports theirs"
print(docstore.gossip.Agent.__module__, docstore.node.__file__)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the sources: a build leaves files beside them."""
    source = tmp_path_factory.mktemp("source")
    for package in ("docstore", "gossip"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, source / package, ignore=ignored)
    kept = (ROOT / name for name in ("pyproject.toml", "README.md", "LICENSE"))
    for file in (*ROOT.glob("*.py"), *kept):
        shutil.copy(file, source)
    return source


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build as pip does."""
    built = tmp_path_factory.mktemp("built")
    for _ in range(2):  # The second build starts with the files of the first.
        pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", built, source)
    (found,) = built.glob("docstore-*.whl")
    return found


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel of another project whose package is called `gossip`."""
    path = tmp_path_factory.mktemp("theirs") / "gossip-9.0-py3-none-any.whl"
    files = THEIRS | {
        "gossip-9.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: gossip\nVersion: 9.0\n",
        "gossip-9.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n",
    }
    record = "gossip-9.0.dist-info/RECORD"
    lines = [f"{name},,\n" for name in (*files, record)]
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in (files | {record: "".join(lines)}).items():
            archive.writestr(name, text)
    return path


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Return the Python of a new environment, which finds what the project needs, not itself."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    executable = tmp_path / "venv" / "bin" / "python"
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    # Paths of a .pth file are searched last, and .pth files there are not read: no editable one.
    (site / "needed.pth").write_text(sysconfig.get_path("purelib"))
    return executable


@pytest.mark.parametrize("is_first", [True, False], ids=["ours first", "theirs first"])
def test_both_survive(python: Path, wheel: Path, theirs: Path, is_first: bool) -> None:
    for each in (wheel, theirs) if is_first else (theirs, wheel):
        pip("install", "--no-deps", "--no-compile", each, python=python)
    assert output_of(python, "-c", "import gossip; print(gossip.WHOSE)") == "theirs"
    module, file = output_of(python, "-c", STARTS).split()
    assert module == "docstore.gossip.agent"
    assert Path(file).is_relative_to(python.parent.parent)
    assert output_of(python.with_name("docstore"), "--version").endswith(version_of(wheel))
    assert "serve" in output_of(python, "-m", "docstore", "--help")
    assert "python -m docstore.gossip" in output_of(python, "-m", "docstore.gossip", "--help")
    pip("uninstall", "--yes", "docstore", python=python)
    assert output_of(python, "-c", "import gossip.config; print(gossip.config.WHOSE)") == "theirs"


def test_their_departure_leaves_ours(python: Path, wheel: Path, theirs: Path) -> None:
    pip("install", "--no-deps", "--no-compile", wheel, theirs, python=python)
    pip("uninstall", "--yes", "gossip", python=python)
    assert output_of(python, "-c", STARTS).startswith("docstore.gossip.agent")


def test_the_wheel_claims_no_name_but_ours(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        claimed = archive.read(f"docstore-{version_of(wheel)}.dist-info/top_level.txt").split()
    modules = {path.stem for path in ROOT.glob("pyspark_docstore*.py")}
    ours = {"docstore", *modules}
    assert {name.decode() for name in claimed} == ours
    tops = {name.partition("/")[0].removesuffix(".py") for name in names}
    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == ours
    assert {"docstore/py.typed", "docstore/gossip/py.typed"} <= set(names)
    served = {f"docstore/http/console/{name}" for name in PATHS.values()}
    assert served <= set(names)


def test_the_wheel_carries_the_man_page_and_completions(python: Path, wheel: Path) -> None:
    pip("install", "--no-deps", "--no-compile", wheel, python=python)
    share = python.parent.parent / "share"
    page = (share / "man/man1/docstore.1").read_text("utf-8")
    assert page == man_page()
    assert set(re.findall(r"^\.SS docstore (\w+)", page, re.MULTILINE)) >= {"put", "lock", "topic"}
    for shell, path in COMPLETIONS.items():
        assert f"_DOCSTORE_COMPLETE=complete_{shell}" in (share / path).read_text("utf-8")
    script = 'source "$0"; COMP_WORDS=(docstore stat); COMP_CWORD=1; _docstore_completion "$1"'
    completed = output_of(
        "bash", "-c", f'{script}; echo "${{COMPREPLY[@]}}"', share / COMPLETIONS["bash"],
        python.with_name("docstore"),
    )  # fmt: skip
    assert completed == "status"


def test_an_isolated_build_has_its_requirements(tmp_path: Path) -> None:
    """Build as pip does: only the requirements of `build-system` are on `sys.path`."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    apart = tmp_path / "apart"
    apart.mkdir()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    for name in needed_by(project["build-system"]["requires"]):
        tops = {each.parts[0] for each in metadata.files(name) or ()} - {"..", "__pycache__"}
        for top in tops:
            (apart / top).symlink_to(metadata.distribution(name).locate_file(top))
    build = (
        f"import sys; sys.path[:0] = [{str(apart)!r}, {str(ROOT)!r}]; import pathlib, setup;"
        f" print(setup.manual_of(pathlib.Path({str(ROOT)!r}), pathlib.Path('manual')))"
    )
    python = tmp_path / "venv/bin/python"
    done = subprocess.run(
        [python, "-c", build], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "share/man/man1/docstore.1" in done.stdout


def needed_by(requirements: Iterable[str]) -> set[str]:
    """Return the names of requirements, and of all that they require here."""
    names = {re.split(r"[^\w.-]", each)[0] for each in requirements if ";" not in each}
    return names.union(*(needed_by(metadata.requires(name) or ()) for name in names))


def test_a_type_checker_finds_the_package_that_make_installs(
    python: Path, source: Path, tmp_path: Path
) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (flags,) = set(re.findall(r"pip install --quiet \S+ --no-deps (.*) -e \.", makefile))
    pip("install", "--no-deps", "--no-build-isolation", *flags.split(), "-e", source, python=python)
    used = "from docstore.client.blocking import Client\nreveal_type(Client([]).get)\n"
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "used.py").write_text(used)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "used.py"],
        capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path / "empty",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "-> docstore.client.documents.Document" in done.stdout


def test_pytest_finds_fixtures_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        points = archive.read(f"docstore-{version_of(wheel)}.dist-info/entry_points.txt").decode()
    assert "[pytest11]\ndocstore.client.fixtures = docstore.client.fixtures\n" in points


def test_the_wheel_carries_the_license(wheel: Path) -> None:
    info = f"docstore-{version_of(wheel)}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"{info}/METADATA").decode()
        text = archive.read(f"{info}/licenses/LICENSE")
    assert "License-Expression: Apache-2.0\n" in metadata
    assert text == (ROOT / "LICENSE").read_bytes()


def version_of(wheel: Path) -> str:
    return wheel.name.split("-")[1]


def output_of(*command: str | Path) -> str:
    """Return the output of a program, run in a folder without our files."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def pip(*arguments: str | Path, python: Path | None = None) -> None:
    """Call pip without a network; in the environment of `python` if it is given."""
    for_whom = ["--python", str(python)] if python else []
    offline = ["--no-index"] if arguments[0] != "uninstall" else []
    command = [sys.executable, "-m", "pip", "--quiet", *for_whom, arguments[0], *offline]
    done = subprocess.run(
        [*command, *map(str, arguments[1:])],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
