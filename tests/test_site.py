"""The documentation site builds strictly, its search finds, and new pages do as they say."""

import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docstore.client import LocalCluster
from tests.source import ROOT

pytestmark = pytest.mark.thorough

NEEDED = ("material", "mkdocs", "mkdocstrings", "mkdocstrings_handlers.python")
FOUND = {
    "lock": {"ownership.html", "how-to/lock-a-job.html", "reference/commands.html"},
    "backup": {"backup.html", "how-to/back-up.html", "reference/commands.html"},
    "quorum": {"guarantees.html", "glossary.html", "rules.html"},
}
"""Word -> pages that a search for it must show."""
PLAYED = sorted([ROOT / "docs/tutorial.md", *(ROOT / "docs/how-to").glob("*.md")])


def is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    missing = [module for module in NEEDED if not is_there(module)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; pip install '.[docs]' brings them")
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", place]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-3000:]
    return place


def test_search_finds(site: Path) -> None:
    entries = json.loads((site / "search/search_index.json").read_text("utf-8"))["docs"]
    for word, pages in FOUND.items():
        said = re.compile(rf"\b{word}\b", re.IGNORECASE)
        shown = [each for each in entries if said.search(f"{each['title']} {each['text']}")]
        assert pages <= {each["location"].partition("#")[0] for each in shown}, word


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    """Scripts, styles, pictures: a page without a network, or opened as a file, is whole."""
    fetched = re.compile(r'<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)="(https?:[^"]+)"')
    for page in site.rglob("*.html"):
        assert not fetched.findall(page.read_text("utf-8")), page.name
    assert (site / "search/search_index.js").is_file()


def test_reference_has_what_there_is(site: Path) -> None:
    pages = {each.stem: each.read_text("utf-8") for each in (site / "reference").glob("*.html")}
    assert 'id="docstore-backup-create"' in pages["commands"]
    assert "--tls-cert-file" in pages["commands"]
    assert 'id="docstore.client.Client.put"' in pages["python"]
    assert 'id="gossip.Agent.start"' in pages["python"]
    assert "POST /core/query-tasks" in pages["http"]


@pytest.fixture(scope="module")
def group() -> Iterator[LocalCluster]:
    with LocalCluster(3) as cluster:
        yield cluster


@pytest.mark.parametrize("page", PLAYED, ids=lambda page: page.stem)
def test_a_page_does_as_it_says(page: Path, group: LocalCluster, tmp_path: Path) -> None:
    """Play the blocks of a page in one shell, in an empty directory, until one fails."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert blocks
    names = {f"N{number}": url for number, url in enumerate(group.urls, 1)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    text = "\n".join(["set -euo pipefail", *blocks])
    shell = subprocess.Popen(
        ["bash", "-xc", text], cwd=tmp_path, env=os.environ | names | {"PATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        said, _ = shell.communicate(timeout=240)
    finally:
        end(shell.pid)
    assert shell.returncode == 0, said[-3000:]
    if page.stem == "tutorial":
        for told in (
            "a paid order cannot become placed",
            "precondition-failed",
            "shipped /orders/1002",
        ):
            assert told in said


def end(session: int) -> None:
    """End what a page has left running."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(session, signal.SIGKILL)
