"""Rules for all commands: their imports, their output for programs, and their exit codes."""

import asyncio
import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console
from typer.main import get_command
from typer.testing import CliRunner

from docstore import __version__
from docstore.cli.app import app
from docstore.cli.examples import EXAMPLES
from docstore.cli.serve_flags import parser
from docstore.cli.tables import print_table
from docstore.client import LocalCluster
from tests.fork_server import SERVER
from tests.source import names
from tests.test_tidy import NODES_PARTS

NEEDED_BY_OTHERS = (
    "aiohttp.web docstore.client.consumer docstore.client.elections docstore.client.groups"
    " docstore.client.local docstore.client.voting docstore.runtime.driver"
    " docstore.runtime.streams_driver rich"
).split()
"""Modules that a read of one document does not need, besides the parts of a node."""
PARSE_THEIR_OPTIONS = {"serve", "spark"}


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    """Return the address of a node with three documents under /notes."""
    with LocalCluster(1) as group:
        [url] = group.urls
        assert docstore("post", "/core/factories", '{"path": "/notes"}', "--url", url)[0] == 0
        for name in "abc":
            assert docstore("put", f"/notes/{name}", "{}", "--url", url)[0] == 0
        yield url


def docstore(*arguments: str) -> tuple[int, str, str]:
    """Run a command; return its exit code, its output and its errors."""
    ended = SERVER.run(*arguments)
    return ended.returncode, ended.stdout, ended.stderr


def test_a_command_prints_its_version() -> None:
    assert docstore("--version") == (0, f"docstore {__version__}\n", "")


def test_a_command_imports_only_what_it_uses(node: str) -> None:
    """This includes the modules of libraries: the house rules check the repository's files only."""
    run = (
        "import atexit, runpy, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr));"
        " runpy.run_module('docstore', run_name='__main__', alter_sys=True)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", run, "get", "/notes/a", "--url", node],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    imported = set(ended.stderr.split())
    assert {"docstore.client.documents", "aiohttp.client"} <= imported
    assert not {each for each in imported if names(each, *NODES_PARTS, *NEEDED_BY_OTHERS)}


@pytest.mark.parametrize("arguments", ["--version", "--help", "get /notes/a", "ls /notes"])
def test_unwritable_output_is_a_one_line_error(node: str, arguments: str) -> None:
    words = arguments.split()
    url = () if words[0].startswith("--") else ("--url", node)
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "docstore", *words, *url],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert ended.returncode == 1
    assert ended.stderr == "docstore: the output: No space left on device\n"


def test_a_command_with_a_closed_output_succeeds() -> None:
    closed = [sys.executable, "-m", "docstore", "--version"]
    ended = subprocess.run(["sh", "-c", f"{' '.join(closed)} >&-"], check=False)
    assert ended.returncode == 0


def test_a_shell_completes_commands_and_options(tmp_path: Path) -> None:
    """The script is that of `--show-completion`, as bash runs it."""
    (tmp_path / "docstore").write_text(f'#!/bin/sh\nexec {sys.executable} -m docstore "$@"\n')
    (tmp_path / "docstore").chmod(0o755)
    complete = (
        'eval "$(docstore --show-completion)"; complete -p docstore >/dev/null || exit 1;'
        " for word in hi --vers; do COMP_WORDS=(docstore $word) COMP_CWORD=1 COMPREPLY=();"
        ' _docstore_completion docstore; echo "${COMPREPLY[*]}"; done;'
        " COMP_WORDS=(docstore get --at) COMP_CWORD=2; _docstore_completion docstore;"
        ' echo "${COMPREPLY[*]}"'
    )
    ended = subprocess.run(
        ["bash", "-c", complete],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ended.stdout.split(), ended.stderr) == (["history", "--version", "--at"], "")


def completed(node: str, typed: str, shell: str = "bash") -> list[str]:
    """Return the completions of a shell for TAB after some words, or within the last of them."""
    words = ["docstore", *shlex.split(typed)]
    asked = {
        "_DOCSTORE_COMPLETE": f"complete_{shell}", "DOCSTORE_URL": node,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": f"docstore {typed}",
        "COMP_WORDS": shlex.join(words) + " " * typed.endswith(" "),
        "COMP_CWORD": str(len(words) - 1 + typed.endswith(" ")),
    }  # fmt: skip
    return CliRunner().invoke(app, env=asked, prog_name="docstore").stdout.split("\n")[:-1]


@pytest.mark.thorough
def test_a_shell_completes_values_and_names(node: str) -> None:
    assert docstore("topic", "create", "clicks", "--url", node)[0] == 0
    for typed, expected in (
        ("log-level ", ["debug", "info", "warning", "error"]),
        ("log-level debug n", ["n1"]),
        ("dump /no", ["/notes"]),
        ("get /no", ["/notes/"]),
        ("get /notes/", ["/notes/a", "/notes/b", "/notes/c"]),
        ("get /notes/b", ["/notes/b"]),
        ("ls /notes --order-by documentVe", ["documentVersion"]),
        ("ls /notes --order-by 'n d'", ["n desc"]),
        ("produce clicks --acks l", ["leader"]),
        ("consume ", ["clicks"]),
        ("lock sh", ["show"]),
        ("lock l --ti", ["--timeout"]),
    ):
        assert completed(node, typed) == expected, typed
    assert completed("http://127.0.0.1:1", "dump /no") == [""]
    assert completed(node, "topic delete cl", "fish") == ["clicks"]
    assert completed(node, "topic delete cl", "zsh") == ["""_arguments '*: :(("clicks"))'"""]


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all commands with their names, with the name of their group before it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} ")
        else:
            yield before + name, command


def test_every_command_prints_json_on_request() -> None:
    without = {
        name
        for name, command in commands(get_command(app))
        if not any("--json" in parameter.opts for parameter in command.params)
    }
    assert without == PARSE_THEIR_OPTIONS
    assert vars(parser().parse_args(["--json"]))["log"] == "json"


def test_the_examples_of_the_help_are_commands() -> None:
    tree = get_command(app)
    main = {name: command for name, command in commands(tree) if name not in {"serve", "spark"}}
    assert main.keys() <= EXAMPLES.keys()
    for path, lines in EXAMPLES.items():
        for line in lines:
            words = shlex.split(re.sub(r"^.*\| | [<>] [\w.]+$", "", line))
            assert words[: 1 + len(path.split())] == ["docstore", *path.split()], line
            if path in main:
                main[path].make_context(path, words[1 + len(path.split()) :])


def test_ls_takes_a_filter_an_order_and_a_selection(node: str) -> None:
    for name, n in (("x", 3), ("y", 1), ("z", 2)):
        assert docstore("put", f"/notes/{name}", f'{{"n": {n}}}', "--url", node)[0] == 0
    url = ("--url", node)
    filtered = docstore("ls", "/notes", "--filter", "n ge 2", *url)
    assert filtered == (0, "/notes/x\n/notes/z\n", "")
    shown = docstore("ls", "/notes", "--order-by", "n desc", "--select", "n", "--limit", "2", *url)
    assert [json.loads(line) for line in shown[1].splitlines()] == [
        {"documentSelfLink": "/notes/x", "n": 3}, {"documentSelfLink": "/notes/z", "n": 2},
    ]  # fmt: skip
    as_json = docstore("ls", "/notes", "--filter", "n lt 2", "--json", *url)
    assert json.loads(as_json[1]) == ["/notes/y"]
    code, _, said = docstore("ls", "/notes", "--filter", "n >> 2", *url)
    assert (code, said.count("\n"), "at 3" in said) == (1, 1, True)
    for name in "xyz":
        assert docstore("delete", f"/notes/{name}", *url)[0] == 0


def test_json_output_is_exactly_one_value(node: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    file.write_text('[{"n": 1}, {"n": 2}]')
    url = ("--json", "--url", node)
    code, out, _ = docstore("load", str(file), "--into", "/rows", *url)
    loaded = json.loads(out)
    assert (code, loaded["documents"], loaded["skipped"]) == (0, 2, 0)
    assert loaded["seconds"] > 0
    assert json.loads(docstore("ls", "/rows", *url)[1]) == [
        "/rows/rows-000001", "/rows/rows-000002",
    ]  # fmt: skip
    assert json.loads(docstore("ls", *url)[1]) == ["/core/factories/notes", "/core/factories/rows"]
    [version] = json.loads(docstore("history", "/notes/a", *url)[1])
    assert version["documentUpdateAction"] == "PUT"


def test_a_piped_table_is_not_cut_to_the_width_of_a_terminal(node: str) -> None:
    code, out, _ = docstore("status", "--url", node)
    assert (code, node in out) == (0, True)


@pytest.mark.parametrize("width", [40, 60, 100])
def test_a_table_fits_a_narrow_terminal_with_wide_letters(width: int) -> None:
    out = Console(width=width, file=io.StringIO())
    columns = ("topic", "partition", "leader", "followers (LEO, lag)")
    row = ("日本語の話題😀", "0", "[n1]", "n2 (12, 0), n3 (11, 1)")
    print_table(columns, [row, row], title="話題", out=out)
    assert isinstance(out.file, io.StringIO)
    shown = out.file.getvalue()
    assert all(cell_len(line.rstrip()) <= width for line in shown.splitlines())
    together = re.sub(r"[\s│┃]", "", shown)
    for cell in (*columns, *row) if width == 40 else ():
        assert cell.replace(" ", "") in together
    assert ("┃" in shown) == (width > 40)


@pytest.mark.thorough
def test_a_terminal_shows_empty_results_and_awaited_input(node: str) -> None:
    """The notes are on standard error of a terminal only; a program gets none."""

    def ran(*words: str, typed: bytes) -> bytes:
        ours, terminal = pty.openpty()
        command = [sys.executable, "-m", "docstore", *words, "--url", node]
        with subprocess.Popen(
            command, stdin=terminal, stdout=terminal, stderr=subprocess.PIPE
        ) as it:
            os.write(ours, typed)
            _, errors = it.communicate(timeout=60)
        os.close(ours)
        os.close(terminal)
        assert it.returncode == 0, errors
        return errors

    for words, said in (
        (
            "ls /notes --filter='documentVersion gt 99'",
            "no documents in /notes that match the filter",
        ),
        ("subscription list", "there are no subscriptions"),
        ("lock list", "there are no locks"),
        ("lease list", "there are no leases; `docstore lease create` makes one"),
        ("put /notes/typed", "reading a JSON object from standard input; Ctrl-D ends it"),
    ):
        assert said.encode() in ran(*shlex.split(words), typed=b"{}\n\x04")
        if not words.startswith("put"):
            assert docstore(*shlex.split(words), "--url", node) == (0, "", "")


def test_one_url_option_takes_several_nodes_with_commas(node: str) -> None:
    code, out, _ = docstore("get", "/notes/a", "--url", f"http://127.0.0.1:1,{node}")
    assert (code, json.loads(out)["documentSelfLink"]) == (0, "/notes/a")


@pytest.mark.parametrize(("command", "expected"), [("put", 3), ("get", 1)])
async def test_an_update_of_unknown_outcome_has_its_own_exit_code(
    command: str, expected: int
) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        body = ["{}"] if command == "put" else []
        code, out, errors = await asyncio.to_thread(
            docstore, command, "/notes/a", *body, "--url", url
        )
    assert (code, out, len(errors.splitlines())) == (expected, "", 1)


def test_a_token_is_created_with_its_line_for_the_access_file() -> None:
    code, made, line = docstore("token")
    assert code == 0
    assert len(made.strip()) >= 43
    assert line == f'tokens = ["{sha256(made.strip().encode()).hexdigest()}"]\n'
    again = json.loads(docstore("token", "--json")[1])
    assert again["token"] != made.strip()
    assert again["sha256"] == sha256(again["token"].encode()).hexdigest()
