"""The commands for subscriptions, as a user types them, at one node."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from docstore.client import LocalCluster
from docstore.subscriptions.signing import secret_of
from tests.docstore.cli.test_commands import docstore

pytestmark = pytest.mark.thorough

SECRET = secret_of(bytes(32))


class Hook(BaseHTTPRequestHandler):
    """Answers a challenge with its content."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called there
        """Log nothing."""


@pytest.fixture(scope="module")
def hook() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_bytes(Fernet.generate_key())
    settings = ["--callback-hosts", "http://127.0.0.1", "--callback-networks", "127.0.0.0/8"]
    with LocalCluster(1, settings=[*settings, "--callback-key-file", str(keys)]) as group:
        yield group.urls[0]


def test_a_subscription_is_created_listed_paused_resumed_and_deleted(
    node: str, hook: str, tmp_path: Path
) -> None:
    url = ("--url", node)
    status, out, _ = docstore("subscription", "create", "/core/examples", hook, *url)
    name, secret = out.splitlines()
    assert (status, secret.startswith("whsec_")) == (0, True)
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    asked = ("/core/examples/a", hook, "--where", "n > 1", "--replay", "--json")
    _, out, _ = docstore(
        "subscription", "create", *asked, "--secret-file", str(tmp_path / "secret"), *url
    )
    other = json.loads(out)
    assert (other["where"], other["state"], "secret" in other) == ("n > 1", "active", False)
    _, out, _ = docstore("subscription", "list", "--json", *url)
    assert sorted(each["path"] for each in json.loads(out)) == [
        "/core/examples", "/core/examples/a"
    ]  # fmt: skip
    assert name in docstore("subscription", "list", "/core/examples", *url)[1]
    assert docstore("subscription", "pause", name, *url) == (0, f"{name}: paused\n", "")
    link = f"/core/subscriptions/{name}"
    assert docstore("subscription", "resume", link, *url) == (0, f"{name}: active\n", "")
    assert docstore("subscription", "delete", name, *url) == (0, f"{name}: deleted\n", "")
    status, _, errors = docstore("subscription", "pause", name, *url)
    error = f"docstore: 404 there is nothing at {link}; `docstore subscription list` lists those"
    assert (status, errors) == (1, f"{error} that exist\n")


def test_an_invalid_subscription_is_a_one_line_error(node: str) -> None:
    asked = ("/core/examples", "https://169.254.169.254/", "--url", node)
    status, _, errors = docstore("subscription", "create", *asked)
    assert (status, errors) == (
        1, "docstore: 400 `callback` must be on a host of callback_hosts; got https://169.254.169.254\n"
    )  # fmt: skip
    gone = ("--secret-file", "/nowhere/secret", "--url", node)
    status, _, errors = docstore("subscription", "create", "/core/examples", "http://x/", *gone)
    assert (status, errors.count("\n"), "No such file" in errors) == (1, 1, True)
