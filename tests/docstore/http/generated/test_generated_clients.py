"""Clients from two generators send requests to three nodes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.docstore.http.generated.conftest import in_venv, installed, run

pytestmark = pytest.mark.thorough

HERE = Path(__file__).parent
PYTHON = "openapi-python-client==0.29.1"
TYPESCRIPT = ("openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5", "@types/node@20")


def check(found: dict[str, Any], fourth: int) -> None:
    """Check the answers of a client. fourth: the status of its JSON patch."""
    assert found["statuses"] == [201, 200, 412, fourth, 200, 200]
    assert found["outcome"] == "not_applied"
    assert found["counts"] == [1, 2]
    assert (found["film"]["title"], found["film"]["year"]) == ("Solaris", 1972)
    assert [each["status"] for each in found["lines"]] == [201, 422]


def test_a_generated_python_client_works(urls: list[str], tmp_path: Path) -> None:
    binaries = in_venv("python", PYTHON)
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


def test_a_generated_typescript_client_works(urls: list[str], tmp_path: Path) -> None:
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
