"""Blocks that readers paste work as written: those of README.md and docs/, on a fresh group.

Fences named `sh` and `python` are to be pasted; all others have another name, such as `text`. The
blocks of a page run in their order, those for the shell in one bash, those for Python as in one
`python -m asyncio`, on a group with the documents of `docstore demo --quick`. Only ports are
replaced, and curl asks a busy node again. A status from 400 on must be in a comment of its block,
as in `# 412`. A line with `until Ctrl-C` is interrupted after a moment. A Python block that begins
with `# name.py` becomes that file, too.
"""

import ast
import asyncio
import inspect
import os
import re
import select
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from docstore.cli import demo_group
from docstore.client import LocalCluster
from docstore.client.local import CLAIM, claim_ports
from tests.docstore.cli.test_demo_group import free_base
from tests.fork_server import SERVER
from tests.source import ROOT
from tests.test_pages import PAGES

README = ROOT / "README.md"
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PASTED = ("sh", "python")
LANGUAGES = {*PASTED, "text", "json", "toml", "yaml", "http", "mermaid"}
OURS = [each for each in PAGES if "decisions" not in each.parts]
NOT_PLAYED = {"CONTRIBUTING.md": "they run the tests themselves"}
BLOCK_S = 600.0
"""Seconds for a block: each job on Spark starts a Java, and a busy machine is slow at that."""
OTHER_PORTS = (
    7000, 7001, 8401, 8411, 8421, 8451, 8461, 8471, 8481, 9001, 9011, 9021, 9031
)  # fmt: skip
"""Ports in pages beside those of the demo's nodes."""
PRELUDE = r"""
set -euo pipefail
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
curl() { command curl -sS --max-time 60 --retry 4 -w '%{stderr}\nHTTP %{http_code}\n' "$@"; }
docstore() {
  if [[ "$1 ${2-}" == "demo --quick" ]]; then set -- "$@" --port "$PORT"; fi
  command docstore "$@"
}
"""
STATUS = re.compile(r"^HTTP ([45]\d\d)$", re.MULTILINE)
SAID = re.compile(r"#[^\n]*?\b([45]\d\d)\b")


@dataclass(frozen=True)
class Block:
    """A fenced block, and the line of its page where it begins."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found[1], found[2])
        for found in FENCE.finditer(text)
    ]


def pasted(page: Path) -> list[Block]:
    return [block for block in blocks_of(page) if block.language in PASTED]


PLAYED = [each for each in OURS if each.name not in NOT_PLAYED and pasted(each)]


class Shell:
    """One bash in which the blocks of a page are pasted one after the other."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._bash = subprocess.Popen(
            ["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            cwd=folder, env=environment, start_new_session=True, bufsize=0,
        )  # fmt: skip
        self.play(PRELUDE)

    def play(self, text: str) -> str:
        """Paste a block; return its output. Raises AssertionError if a command fails."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        file, printed = self._folder / ".block", self._folder / ".printed"
        file.write_text(text, "utf-8")
        self._bash.stdin.write(f". {file} >{printed} 2>&1; echo done\n".encode())
        ready, _, _ = select.select([self._bash.stdout], [], [], BLOCK_S)
        has_ended = bool(ready) and self._bash.stdout.read(5) == b"done\n"
        said = printed.read_text("utf-8", "replace")
        assert has_ended, f"{text}\n{'it failed' if ready else 'it does not end'}:\n{said[-3000:]}"
        return said

    def close(self) -> None:
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.close()
        try:
            self._bash.wait(20)
        except subprocess.TimeoutExpired:
            self._bash.kill()
            self._bash.wait()
        with suppress(ProcessLookupError):  # Nodes that a block has left in the background.
            os.killpg(self._bash.pid, 9)
        self._bash.stdout.close()


class Reader:
    """A reader who pastes blocks of one page, on a group of nodes at other ports."""

    def __init__(self, folder: Path, ports: dict[int, int]) -> None:
        self.folder, self._ports = folder, ports
        bin_ = folder / ".bin"
        bin_.mkdir()
        (bin_ / "docstore").write_text(f'#!/bin/sh\nexec {sys.executable} -m docstore "$@"\n')
        (bin_ / "docstore").chmod(0o755)
        self._environment = {
            **os.environ, "PATH": f"{bin_}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT), "PORT": str(ports[demo_group.PORT]),
            "DOCSTORE_URL": f"http://127.0.0.1:{ports[demo_group.PORT]}",
            "XDG_CACHE_HOME": str(folder / ".cache"), "COLUMNS": "100",
        }  # fmt: skip
        self.shell = Shell(folder, self._environment)
        self._runner = asyncio.Runner()
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def paste(self, block: Block) -> None:
        ports = "|".join(map(str, self._ports))
        text = re.sub(rf"\b({ports})\b", self._moved, block.text)
        if block.language == "sh":
            printed = self.shell.play(
                re.sub(r"^(.*\S) +#.*until Ctrl-C.*$", INTERRUPTED, text, flags=re.MULTILINE)
            )
            seen, told = STATUS.findall(printed), SAID.findall(text)
            assert seen == told, f"{block.place} says {told}, and these came: {printed[-3000:]}"
            return
        if file := re.match(r"# (\w+\.py)\n", text):
            (self.folder / file[1]).write_text(text, "utf-8")
        code = compile(text, block.place, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if code.co_flags & inspect.CO_COROUTINE:
            self._runner.run(asyncio.wait_for(eval(code, self.names), BLOCK_S))
        else:
            exec(code, self.names)

    def _moved(self, port: re.Match[str]) -> str:
        return str(self._ports[int(port[1])])

    def close(self) -> None:
        self.shell.close()
        SERVER.run("demo", "stop", environment=self._environment)
        self._runner.close()
        if "spark" in self.names:
            self.names["spark"].stop()


INTERRUPTED = r"timeout --signal INT 2 \1 || [ $? = 124 ]"


def free_ports(count: int) -> list[int]:
    claims = [claim_ports() for _ in range(count)]
    try:
        return [claim.getsockname()[1] - CLAIM for claim in claims]
    finally:
        for claim in claims:
            claim.close()


@contextmanager
def reading(page: Path, folder: Path) -> Iterator[Reader]:
    """Give a reader a group; README.md says how to start one."""
    with ExitStack() as stack:
        if page == README:
            ports = demo_group.DemoGroup(free_base()).ports
        else:
            group = LocalCluster(demo_group.SIZE, folder / ".nodes", demo_group.SETTINGS)
            urls = stack.enter_context(group).urls
            asyncio.run(demo_group.fill(urls))
            ports = [int(url.rpartition(":")[2]) for url in urls]
        usual = (*demo_group.DemoGroup().ports, *OTHER_PORTS)
        moved = dict(zip(usual, [*ports, *free_ports(len(OTHER_PORTS))], strict=True))
        with closing(Reader(folder, moved)) as reader:
            yield reader


# Visitors paste the blocks of README first; all pages take minutes.
EACH = [
    pytest.param(page, marks=pytest.mark.thorough if page == README else pytest.mark.slow)
    for page in PLAYED
]


@pytest.mark.parametrize("page", EACH, ids=name_of)
def test_blocks_play_in_their_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with reading(page, tmp_path) as reader:
        for block in pasted(page):
            reader.paste(block)


@pytest.mark.parametrize("page", OURS, ids=name_of)
def test_fences_name_their_language(page: Path) -> None:
    for block in blocks_of(page):
        assert block.language in LANGUAGES, f"{block.place}: sh and python are pasted, else text"
        if block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "python" and page.name not in NOT_PLAYED:
            compile(block.text, block.place, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
