"""External tools, each installed once in its own folder, and three nodes for their tests.

The folders are below the one for temporary files. Without a registry to install a tool from, its
tests are skipped.
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

TOOLS = Path(tempfile.gettempdir()) / f"docstore-tools-{os.getuid()}"
FILM = {"required": ["title"], "properties": {
    "title": {"type": "string"}, "year": {"type": "integer"}, "rating": {"type": "number"},
}}  # fmt: skip


def run(*command: str | Path, where: Path, timeout_s: float = 600) -> str:
    """Return the output of a command; fail with its whole output if it fails."""
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
    """Yield the URLs of three nodes with a factory and a topic."""
    with LocalCluster(3, tmp_path_factory.mktemp("nodes")) as group:
        post(f"{group.urls[0]}/core/factories", {"path": "/films", "schema": FILM})
        post(f"{group.urls[0]}/core/streams", {"name": "flights", "partitions": 1})
        yield group.urls


def post(url: str, body: dict[str, Any]) -> None:
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(url, json.dumps(body).encode(), headers)) as answer:
        assert answer.status == 201


def in_venv(name: str, requirement: str) -> Path:
    """Return the folder of a Python package's programs; skip where it cannot be installed."""
    binaries = TOOLS / name / "venv" / "bin"
    installed(name, [
        [sys.executable, "-m", "venv", "venv"],
        [binaries / "python", "-m", "pip", "install", "--quiet", requirement],
    ])  # fmt: skip
    return binaries
