"""The pages of users: each user sees its own, an administrator sees all."""

import json
from typing import Any

import pytest

from docstore.access.authenticator import Authenticator
from docstore.http.access import Access
from tests.docstore.http.access.conftest import GRANTS, Asker

USERS = "/core/access/users"


def page_of(name: str) -> dict[str, Any]:
    return {"documentSelfLink": f"{USERS}/{name}", "name": name, "grants": GRANTS[name]}


async def test_a_user_sees_itself_and_an_administrator_sees_all(asker: Asker) -> None:
    for asking in ("nobody", "tenant", "writer", "operator"):
        for path in ("/core/access", f"{USERS}/{asking}"):
            status, content, _ = await asker.ask(asking, "GET", path)
            assert (status, json.loads(content)) == (200, page_of(asking))
        for name in ("reader", "operator", "stranger"):
            status, content, _ = await asker.ask(asking, "GET", f"{USERS}/{name}")
            is_seen = asking == "operator" and name in GRANTS
            assert (status, json.loads(content).get("name")) == (
                (200, name) if is_seen else (404, None)
            )


@pytest.mark.parametrize("path", ["/core/access", f"{USERS}/operator"])
async def test_pages_of_users_are_read_only(asker: Asker, path: str) -> None:
    status, _, headers = await asker.ask("operator", "OPTIONS", path)
    assert (status, headers["Allow"]) == (204, "GET, HEAD, OPTIONS")
    for method in ("PUT", "PATCH", "DELETE", "POST"):
        assert (await asker.ask("operator", method, path, b"{}"))[0] == 405


@pytest.mark.parametrize("path", ["/core/access/", USERS, f"{USERS}/a/b", "/core/accessories"])
async def test_paths_beside_the_users_are_refused(asker: Asker, path: str) -> None:
    assert (await asker.ask("operator", "GET", path))[0] in (400, 404)


@pytest.fixture(params=["named", "anonymous"])
def access(authenticator: Authenticator, request: pytest.FixtureRequest) -> Access:
    return Access(authenticator, is_anonymous=request.param == "anonymous")


async def test_a_version_names_its_user_unless_anonymous(asker: Asker, access: Access) -> None:
    def link_of(name: str) -> str | None:
        return None if access.is_anonymous else f"{USERS}/{name}"

    link = "/tenant1/a"
    for number, name in enumerate(("tenant", "operator", "writer")):
        forged = json.dumps({"n": number, "documentAuthPrincipalLink": f"{USERS}/reader"})
        status, content, _ = await asker.ask(name, "PUT", link, forged.encode())
        assert status == 200
        assert json.loads(content).get("documentAuthPrincipalLink") == link_of(name)
    _, content, _ = await asker.ask("reader", "GET", f"{link}/versions")
    makers = [each.get("documentAuthPrincipalLink") for each in json.loads(content)["versions"]]
    assert makers == [link_of(name) for name in ("writer", "operator", "tenant", "operator")]
