"""The commands for leases, as a user types them, at one node."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from docstore.client import LocalCluster
from tests.docstore.cli.test_commands import docstore


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    with LocalCluster(1) as group:
        yield group.urls[0]


def test_a_lease_is_created_kept_listed_and_revoked(node: str) -> None:
    url = ("--url", node)
    made = docstore("lease", "create", "--id", "mine", "--ttl", "10", "--holder", "me", *url)
    assert made == (0, "mine\n", "")
    keeping = subprocess.Popen(
        [sys.executable, "-m", "docstore", "lease", "keep", "mine", *url],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with keeping:
        assert keeping.stdout is not None
        assert keeping.stdout.readline() == "mine: kept alive for 10 s at a time\n"
        status, listed, _ = docstore("lease", "list", "--json", *url)
        [page] = json.loads(listed)
        assert (status, page["holder"], page["state"]) == (0, "me", "alive")
        assert page["remainingMs"] > 0
        assert "mine" in docstore("lease", "list", *url)[1]
        assert docstore("lease", "revoke", "mine", *url) == (0, "mine: expiring\n", "")
        _, errors = keeping.communicate(timeout=20)
    assert (keeping.returncode, errors) == (
        1,
        "docstore: lease mine has ended; create another one to go on\n",
    )
    assert docstore("lease", "revoke", "mine", "--now", *url)[:2] == (0, "mine: ended\n")


def test_an_invalid_lease_command_is_one_line(node: str) -> None:
    url, hint = ("--url", node), "; `docstore lease list` lists those that exist\n"
    error = f"docstore: 404 there is no lease /core/leases/unknown{hint}"
    assert docstore("lease", "keep", "unknown", *url)[::2] == (1, error)
    error = f"docstore: 404 there is no such lease{hint}"
    assert docstore("lease", "revoke", "unknown", *url)[::2] == (1, error)
    status, _, errors = docstore("lease", "create", "--ttl", "0.1", *url)
    assert (status, "0.5" in errors) == (2, True), errors


class Slow:
    """Answers requests for leases only once many of them have arrived."""

    def __init__(self) -> None:
        self.asked = 0
        self.have_come = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split()[1].decode()
                page: dict[str, object] = {"documentSelfLink": path}
                if "leases/" in path:
                    self.asked += 1
                    if self.asked >= 20:
                        self.have_come.set()
                    await self.have_come.wait()
                else:
                    page = {"documentLinks": [f"/core/leases/{each}" for each in range(100)]}
                body = json.dumps(page).encode()
                size = b"Server: docstore\r\nContent-Length: %d\r\n\r\n" % len(body)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + size + body)
        writer.close()


async def test_leases_are_read_concurrently() -> None:
    """Once, four hundred leases took 41 seconds."""
    server = await asyncio.start_server(Slow().serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, asyncio.timeout(60):
        listed = await asyncio.to_thread(docstore, "lease", "list", "--json", "--url", url)
    assert len(json.loads(listed[1])) == 100, listed
