"""Two generators make clients of the description, which then play against three nodes.

The generators are installed once, below the folder for temporary files, each in a folder of its
own. Without a registry to install them from, the tests are skipped.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from docstore.client.local import LocalCluster

pytestmark = pytest.mark.thorough

HERE = Path(__file__).parent
TOOLS = Path(tempfile.gettempdir()) / f"docstore-generators-{os.getuid()}"
PYTHON = "openapi-python-client==0.29.1"
TYPESCRIPT = ("openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5", "@types/node@20")
FILM = {"required": ["title"], "properties": {
    "title": {"type": "string"}, "year": {"type": "integer"}, "rating": {"type": "number"},
}}  # fmt: skip


def run(*command: str | Path, where: Path, timeout_s: float = 300) -> str:
    """Return what a command prints. Fails with all that it says."""
    done = subprocess.run(
        command, cwd=where, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


def installed(name: str, commands: Sequence[Sequence[str | Path]]) -> Path:
    """Return the folder of a generator; skip where it cannot be installed."""
    folder = TOOLS / name
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            for command in commands:
                run(*command, where=folder)
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"{name} cannot be installed: {str(error)[:500]}")
        (folder / "complete").touch()
    return folder


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Three nodes with a factory and a topic."""
    with LocalCluster(3, tmp_path_factory.mktemp("nodes")) as group:
        post(f"{group.urls[0]}/core/factories", {"path": "/films", "schema": FILM})
        post(f"{group.urls[0]}/core/streams", {"name": "flights", "partitions": 1})
        yield group.urls


def post(url: str, body: dict[str, Any]) -> None:
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(url, json.dumps(body).encode(), headers)) as answer:
        assert answer.status == 201


def check(found: dict[str, Any], fourth: int) -> None:
    """Check what a client has got. fourth: the status of its JSON patch."""
    assert found["statuses"] == [201, 200, 412, fourth, 200, 200]
    assert found["outcome"] == "not_applied"
    assert found["counts"] == [1, 2]
    assert (found["film"]["title"], found["film"]["year"]) == ("Solaris", 1972)
    assert [each["status"] for each in found["lines"]] == [201, 422]


def test_a_python_client(urls: list[str], tmp_path: Path) -> None:
    binaries = TOOLS / "python" / "venv" / "bin"
    installed("python", [
        [sys.executable, "-m", "venv", "venv"],
        [binaries / "python", "-m", "pip", "install", "--quiet", PYTHON],
    ])  # fmt: skip
    (tmp_path / "client.yaml").write_text(
        "content_type_overrides: {application/x-ndjson: application/octet-stream}\n"
    )
    run(
        binaries / "openapi-python-client", "generate", "--url", f"{urls[0]}/core/openapi.json",
        "--config", "client.yaml", "--meta", "none", "--output-path", "store", where=tmp_path,
    )  # fmt: skip
    shutil.copy(HERE / "play.py", tmp_path)
    found = json.loads(run(binaries / "python", "play.py", *urls, where=tmp_path))
    check(found, fourth=400)  # It has no class for an array, and sends an object.
    assert found["records"] >= 3


def test_a_typescript_client(urls: list[str], tmp_path: Path) -> None:
    folder = installed("typescript", [
        ["npm", "init", "--yes"],
        ["npm", "install", "--silent", "--no-audit", "--no-fund", *TYPESCRIPT],
    ])  # fmt: skip
    binaries = folder / "node_modules" / ".bin"
    (tmp_path / "node_modules").symlink_to(folder / "node_modules")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copy(HERE / "play.ts", tmp_path)
    run(
        binaries / "openapi-typescript", f"{urls[0]}/core/openapi.json", "-o", "store.d.ts",
        where=tmp_path,
    )  # fmt: skip
    run(
        binaries / "tsc", "--strict", "--skipLibCheck", "--target", "es2022", "--module",
        "nodenext", "--types", "node", "play.ts", where=tmp_path,
    )  # fmt: skip
    check(json.loads(run("node", "play.js", *urls, where=tmp_path)), fourth=200)
