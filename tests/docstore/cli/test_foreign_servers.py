"""Another server at the address of a node: each command names it in a one-line error."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from docstore.cli import terminal
from docstore.cli.app import app
from tests.docstore.cli.test_commands import commands
from tests.tiers import tiers

WITHOUT_URL = {
    "serve", "demo kill", "demo stop", "force-config", "spark", "token", "restore", "backup verify",
    "certs make-ca", "certs make-node", "certs show",
}  # fmt: skip
"""Commands without the URL of a node; jobs on Spark have their own command line."""
ARGUMENTS = {
    "status": "",
    "doctor": "",
    "load": "{rows} --into /a",
    "resync": "",
    "drain": "",
    "get": "/a/b",
    "put": "/a/b {{}}",
    "patch": "/a/b {{}}",
    "post": "/a {{}}",
    "delete": "/a/b",
    "ls": "/a",
    "dump": "/a",
    "history": "/a/b",
    "watch": "/a",
    "explain": "/a/b",
    "join": "{url}",
    "replace": "n1",
    "remove": "n1",
    "leave": "",
    "cancel": "",
    "trace": "n1",
    "log-level": "debug",
    "topic create": "t",
    "topic list": "",
    "topic describe": "t",
    "topic alter": "t --partitions 2",
    "topic delete": "t",
    "partition list": "",
    "partition elect": "t 0",
    "partition lead": "t 0 n2",
    "partition move": "t 0 n2",
    "partition delete-records": "t 0 --all",
    "produce": "t",
    "consume": "t",
    "group list": "",
    "group describe": "g",
    "group reset": "g t --to 0",
    "group delete": "g",
    "role list": "",
    "role describe": "r",
    "role watch": "r",
    "lease create": "",
    "lease keep": "l",
    "lease list": "",
    "lease revoke": "l",
    "lock run": "l -- true",
    "lock list": "",
    "lock show": "l",
    "lock break": "l",
    "election list": "",
    "election resign": "e",
    "election transfer": "e c",
    "access check": "ann GET /a",
    "group create": "g t",
    "role create": "r",
    "election run": "e -- true",
    "election show": "e",
    "election observe": "e",
    "subscription create": "/a https://hooks.example",
    "subscription list": "",
    "subscription pause": "s",
    "subscription resume": "s",
    "subscription delete": "s",
    "backup create": "{rows}.backups",
    "gossip-key list": "",
    "gossip-key install": "",
    "gossip-key use": "k",
    "gossip-key remove": "k",
    "gossip-key rotate": "",
}
JSON = "Content-Type: application/json\r\n"
HTML = "Content-Type: text/html\r\n"
ANSWERS = {
    "an object": (200, JSON, '{"name": "other", "members": 1}'),
    "a list": (200, JSON, "[]"),
    "no JSON": (200, JSON, "<p>\n"),
    "a page": (200, HTML, "<p>\nHi</p>\n"),
    "nothing": (200, "", ""),
    "no content": (204, "", ""),
    "a redirect": (302, "Location: https://elsewhere/\r\n", ""),
    "a page that is not there": (404, HTML, "<h1>\nNot found</h1>\n"),
    "another's error": (404, JSON, '{"error": {"code": 404}}'),
    "a login": (401, HTML, "<form>\n"),
}


@contextmanager
def serving(answer: bytes, *, drips: bool = False) -> Iterator[str]:
    """Send an answer to each request. drips: then send a byte now and then, for ever."""
    is_over = threading.Event()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with suppress(ConnectionError):
                while self.rfile.readline().strip():
                    pass
                self.wfile.write(answer)
                while drips and not is_over.wait(0.01):
                    self.wfile.write(b" ")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            is_over.set()
            server.shutdown()
            thread.join()


def ended(name: str, url: str, tmp_path: Path) -> tuple[int, str, str]:
    """Run a command in this process; return its exit code, its output, its errors."""
    rows = tmp_path / "rows.json"
    rows.write_text("[{}]")
    words, behind, what = ARGUMENTS[name].format(rows=rows, url=url).partition(" -- ")
    command = [*name.split(), *words.split(), "--url", url, *(behind and ["--", what])]
    found = CliRunner().invoke(app, command, catch_exceptions=False)
    return found.exit_code, found.stdout, found.stderr


def test_every_command_is_covered() -> None:
    assert {name for name, _ in commands(get_command(app))} == {*ARGUMENTS, *WITHOUT_URL}


QUICK = ("a page", "an object")


@pytest.mark.parametrize("kind", tiers(QUICK, (kind for kind in ANSWERS if kind not in QUICK)))
def test_a_server_that_is_no_node_is_a_one_line_error(kind: str, tmp_path: Path) -> None:
    """Once, the answer was printed as a document, or ended in a traceback."""
    status, head, body = ANSWERS[kind]
    answer = f"HTTP/1.1 {status} X\r\n{head}Connection: close\r\n"
    answer += f"Content-Length: {len(body)}\r\n\r\n{body}"
    with serving(answer.encode()) as url:
        for name in ARGUMENTS:
            code, out, errors = ended(name, url, tmp_path)
            [line] = errors.splitlines()
            assert (code, out) == (1, ""), (name, line)
            assert line.startswith(
                f"docstore: the server at {url} is not a docstore node: it answers "
            ), name
            assert f" with {status}, " in line, name


def test_a_server_without_http_is_a_one_line_error(tmp_path: Path) -> None:
    with serving(b"SSH-2.0-OpenSSH_9.9\r\n") as url:
        for name in ARGUMENTS:
            code, out, errors = ended(name, url, tmp_path)
            assert (code, out, name) == (1, "", name)
            said = "is not a docstore node: it does not speak HTTP; give the URL of a node"
            assert errors == f"docstore: the server at {url} {said}\n"


@pytest.mark.parametrize(("command", "expected"), [("get", 1), ("put", 3)])
def test_an_endless_answer_times_out(
    command: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte arrives in time, and the whole answer never does."""
    monkeypatch.setitem(terminal.client_of.__kwdefaults__, "timeout_s", 0.3)
    endless = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"
    with serving(endless, drips=True) as url:
        code, out, errors = ended(command, url, tmp_path)
    assert (code, out, len(errors.splitlines())) == (expected, "", 1)
    assert f"{url}: no answer in time" in errors
