"""The console's files: their table, their headers, and the constructs that they may not use."""

import hashlib
import re
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path

import aiohttp
import pytest

from docstore.access.authenticator import Authenticator
from docstore.access.rules import rules_of
from docstore.http.access import Access
from docstore.http.console.files import DOCS, GUARDS, NAMES, PATHS, TYPES, UI
from docstore.http.server import HttpServer
from docstore.ownership.proof import RATE_ERROR
from docstore.sessions.holder import WINDOW
from tests.docstore.http.conftest import FAST, Raw
from tests.docstore.http.single import SingleNode
from tests.docstore.http.wires import asked

FOLDER = Path(str(files("docstore.http.console")))
OWN = [each for each in NAMES if not each.startswith("uplot")]
"""The console's files without those of uPlot."""
WAYS_IN = (
    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "srcdoc", "DOMParser",
    "createContextualFragment", "setHTML", "eval(", "new Function", "javascript:",
)  # fmt: skip
"""Constructs by which text could become markup or a script."""

UPLOT = {
    "uplot-licence.txt":
        "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    "uplot.css":
        "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uplot.js":
        "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
}  # fmt: skip


@pytest.fixture
async def base_url(node: SingleNode) -> AsyncIterator[str]:
    """Yield the URL of a node that needs a token."""
    server = HttpServer(node, FAST, access=Access(Authenticator(rules_of(""))))
    yield f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}"
    await server.stop(0.1)


def test_each_file_is_in_the_table() -> None:
    there = {each.name for each in FOLDER.iterdir() if each.suffix[1:] in TYPES}
    assert there == {*NAMES, "index.html"}


@pytest.mark.parametrize("path", PATHS)
async def test_a_file_is_served_without_a_token(client: aiohttp.ClientSession, path: str) -> None:
    name = PATHS[path]
    async with client.get(path) as answer:
        assert answer.status == 200
        assert await answer.read() == (FOLDER / name).read_bytes()
        assert answer.headers.items() >= GUARDS.items()
        assert answer.headers["Content-Type"] == TYPES[name.rpartition(".")[2]]
        tag = answer.headers["ETag"]
    for held in (tag, f'"other", {tag}'):
        async with client.get(path, headers={"If-None-Match": held}) as answer:
            assert (answer.status, await answer.read()) == (304, b"")
            assert answer.headers["ETag"] == tag
    async with client.get(path, headers={"If-None-Match": '"other"'}) as answer:
        assert answer.status == 200
    async with client.head(path) as answer:
        assert (answer.status, await answer.read()) == (200, b"")


async def test_the_policy_limits_pages_to_the_node_itself(client: aiohttp.ClientSession) -> None:
    async with client.get(UI) as answer:
        policy = dict(
            each.split(" ", 1) for each in answer.headers["Content-Security-Policy"].split("; ")
        )
        assert policy.pop("default-src") == "'self'"
        assert set(policy) == {"object-src", "base-uri", "form-action", "frame-ancestors"}
        assert set(policy.values()) == {"'none'"}
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    async with client.get(DOCS) as answer:
        assert answer.headers["ETag"]


@pytest.mark.parametrize(
    "path",
    [f"{UI}/files.py", f"{UI}/__init__.py", f"{UI}/index.html", f"{UI}/", f"{UI}/main.js/x",
     f"{UI}/../needs.py", f"{UI}/%2e%2e/needs.py", f"{UI}/..%2fneeds.py", f"{DOCS}/main.js"],
)  # fmt: skip
async def test_no_other_file_is_served(raw: Raw, path: str) -> None:
    answer = await raw(asked("GET", path, b"Connection: close\r\n"))
    assert re.match(rb"HTTP/1.1 40[014] ", answer), answer[:80]
    assert b"import" not in answer


async def test_a_name_may_be_spelt_with_escapes(raw: Raw) -> None:
    answer = await raw(asked("GET", f"{UI}/%6dain.js", b"Connection: close\r\n"))
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_the_uplot_files_are_those_of_the_release() -> None:
    """The digests are those of the files in the package `uplot` 1.6.32 of npm."""
    for name, digest in UPLOT.items():
        content = (FOLDER / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest, name
        assert not [way for way in WAYS_IN if way.encode() in content], name


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_browser_is_redirected_to_the_console(raw: Raw, method: str) -> None:
    accepts = b"Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\nConnection: close\r\n"
    answer = await raw(asked(method, "/", accepts))  # Without a token.
    assert answer.startswith(b"HTTP/1.1 303 "), answer[:80]
    assert b"\r\nLocation: /core/ui\r\n" in answer
    assert b"\r\nVary: Accept\r\n" in answer
    for others in (b"", b"Accept: */*\r\n", b"Accept: application/json\r\n"):
        answer = await raw(asked(method, "/", others + b"Connection: close\r\n"))
        assert answer.startswith(b"HTTP/1.1 401 "), answer[:80]


def test_no_file_can_turn_text_into_markup_or_script() -> None:
    for name in (*OWN, "index.html"):
        text = (FOLDER / name).read_text("utf-8")
        assert not [way for way in WAYS_IN if way in text], name
        assert not re.search(r"setAttribute\((?!\"(?:href|aria-[a-z]+)\"|key, )", text), name


def test_a_leader_has_stopped_before_the_console_transfers_its_lead() -> None:
    text = (FOLDER / "queue.js").read_text("utf-8")
    found = re.search(r"const STOPPED_AFTER = ([\d.]+);", text)
    assert found is not None
    assert WINDOW * (1 + 2 * RATE_ERROR) <= float(found[1]) < 1


def test_no_file_loads_from_another_site() -> None:
    """The page has no inline style or script either, which its policy would block."""
    for name in (*NAMES, "index.html"):
        text = (FOLDER / name).read_text("utf-8")
        text = text.replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(r"[\"'(]\s*(?:https?:|wss?:)?//", text), name
    page = (FOLDER / "index.html").read_text("utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", page)
    used = set(re.findall(r"(?:src|href)=\"(/core/ui/[^\"#]+)\"", page))
    for name in NAMES:
        used |= set(re.findall(r"from \"([^\"]+)\"", (FOLDER / name).read_text("utf-8")))
    # A chart loads the script of uPlot when it is first shown; the licence is for readers.
    assert used | {f"{UI}/uplot.js", f"{UI}/uplot-licence.txt"} == set(PATHS) - {UI, DOCS}


@pytest.mark.parametrize("name", [each for each in OWN if each.endswith(".js")])
def test_modules_keep_the_house_rules(name: str) -> None:
    lines = (FOLDER / name).read_text("utf-8").splitlines()
    assert lines[0].startswith("// "), "the first line of a file describes it"
    assert not [number for number, line in enumerate(lines, 1) if len(line) > 100]
    assert len(lines) <= 400
