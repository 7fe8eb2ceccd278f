"""The documentation site builds strictly, and its search finds."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.source import ROOT

pytestmark = pytest.mark.thorough

NEEDED = ("material", "mkdocs", "mkdocstrings", "mkdocstrings_handlers.python")
FOUND = {
    "lock": {"ownership.html", "how-to/lock-a-job.html", "reference/commands.html"},
    "backup": {"backup.html", "how-to/back-up.html", "reference/commands.html"},
    "quorum": {"guarantees.html", "glossary.html", "rules.html"},
}
"""Word -> pages that a search for it must show."""


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
    """Check scripts, styles, pictures: a page is whole without a network, or opened as a file."""
    fetched = re.compile(r'<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)="(https?:[^"]+)"')
    for page in site.rglob("*.html"):
        assert not fetched.findall(page.read_text("utf-8")), page.name
    assert (site / "search/search_index.js").is_file()


def test_the_reference_has_commands_methods_and_requests(site: Path) -> None:
    pages = {each.stem: each.read_text("utf-8") for each in (site / "reference").glob("*.html")}
    assert 'id="docstore-backup-create"' in pages["commands"]
    assert "--tls-cert-file" in pages["commands"]
    assert 'id="docstore.client.Client.put"' in pages["python"]
    assert 'id="gossip.Agent.start"' in pages["python"]
    assert "POST /core/query-tasks" in pages["http"]
