"""A server that authenticates each user, with some factories and documents."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from docstore.access.authenticator import Authenticator
from docstore.access.rules import rules_of
from docstore.http.access import Access
from docstore.http.server import HttpServer
from docstore.http.staged_files import Staging
from tests.docstore.access.tokens import digest
from tests.docstore.http.conftest import FAST
from tests.docstore.http.single import SingleNode

GRANTS = {
    "nobody": {},
    "reader": {"/": "read"},
    "writer": {"/": "write"},
    "operator": {"/": "admin"},
    "tenant-reader": {"/tenant1": "read"},
    "tenant": {"/tenant1": "write"},
    "tenant-admin": {"/tenant1": "admin"},
    "one-document": {"/tenant1/a": "write"},
    "two-documents": {"/tenant1/a": "read", "/tenant1/b": "read", "/tenant1/c": "read"},
    "scraper": {"/metrics": "read"},
    "producer": {"/core/streams/clicks": "write", "/core/producers": "write"},
    "topic-admin": {"/core/streams/clicks": "admin"},
}
"""Role -> its grants; its token is its name."""
FACTORIES = ("/tenant1", "/tenant1x", "/tenant2", "/tenant1/deep")
DOCUMENTS = ("/tenant1/a", "/tenant1/b", "/tenant1x/a", "/tenant2/a", "/tenant1/deep/a")


def rules_text() -> str:
    """Return the access file of these roles."""
    lines = []
    for name, grants in GRANTS.items():
        lines += [f"[roles.{name}]", *(f'"{path}" = "{level}"' for path, level in grants.items())]
        lines += [f"[users.{name}]", f'tokens = ["{digest(name)}"]', f'roles = ["{name}"]']
    return "\n".join(lines)


@pytest.fixture
def authenticator() -> Authenticator:
    return Authenticator(rules_of(rules_text()))


@pytest.fixture
def access(authenticator: Authenticator) -> Access:
    return Access(authenticator)


@pytest.fixture
async def base_url(node: SingleNode, access: Access, tmp_path: Path) -> AsyncIterator[str]:
    server = HttpServer(node, FAST, Staging(tmp_path), access=access)
    yield f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}"
    await server.stop(0.1)


class Asker:
    """Sends requests as a user, their targets unchanged."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def ask(
        self, name: str, method: str, target: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes, aiohttp.typedefs.LooseHeaders]:
        """Return status, body and headers. name: the role, "" for no token."""
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        if name:
            sent["Authorization"] = f"Bearer {name}"
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        url = URL(self._url + target, encoded=True)
        async with self._session.request(method, url, data=body, headers=sent) as answer:
            return answer.status, await answer.read(), answer.headers


@pytest.fixture
async def asker(base_url: str) -> AsyncIterator[Asker]:
    async with aiohttp.ClientSession() as session:
        asker = Asker(session, base_url)
        for path in FACTORIES:
            declared = f'{{"path": "{path}"}}'.encode()
            assert (await asker.ask("operator", "POST", "/core/factories", declared))[0] == 201
        for link in DOCUMENTS:
            assert (await asker.ask("operator", "PUT", link, b'{"a": 1}'))[0] == 201
        yield asker
