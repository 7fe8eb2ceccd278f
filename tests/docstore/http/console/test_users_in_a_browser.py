"""The console of a group with an access file: it offers each user the granted actions only."""

from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
from cryptography.fernet import Fernet

from docstore.client import LocalCluster
from tests.docstore.http.console.browser import EXECUTABLE, Browser
from tests.docstore.http.console.world import ask, furnish, put
from tests.docstore.subscriptions.receiver import receiving
from tests.docstore.subscriptions.test_access import access_file

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(EXECUTABLE is None, reason="there is no Chromium here"),
]
GRANTS = {
    "reader": {"/": "read"},
    "writer": {"/": "write"},
    "admin": {"/": "admin"},
    "clerk": {"/": "read", "/notes/a": "write", "/core/locks/nightly run": "write"},
    "owner": {"/": "read", "/notes": "admin"},
}
BOTH = ("writer", "admin")
OFFERED: dict[str, dict[str, tuple[str, ...]]] = {
    "factories": {"Declare a factory": ("admin", "owner")},
    "list/notes": {"New document": (*BOTH, "owner")},
    "document/notes/a": dict.fromkeys(("Change", "Delete"), (*BOTH, "clerk", "owner")),
    "document/notes/b": dict.fromkeys(("Change", "Delete"), (*BOTH, "owner")),
    "document/core/factories/notes": dict.fromkeys(("Change", "Delete"), ("admin", "owner")),
    "document/core/streams/orders": {"Delete": ("admin",)},
    "streams": {"Create a topic": ("admin",)},
    "stream/orders": {"Append a record": BOTH},
    "holders/locks/nightly run": dict.fromkeys(("Break", "Withdraw"), BOTH),
    "holders/elections/scheduler": dict.fromkeys(("Resign", "Transfer", "Withdraw"), BOTH),
    "holders/leases/scheduler~host-7": {"Revoke": BOTH},
    "holders/groups/etl": dict.fromkeys(("Delete", "Reset"), BOTH),
    "holders/roles/pricing": dict.fromkeys(("Remove",), BOTH),
    "subscriptions": dict.fromkeys(("Pause", "Delete"), ("reader", "admin", "owner")),
}
"""View -> action -> the users that may use it."""
ACTIONS = {action for offered in OFFERED.values() for action in offered}
SHOWN = "[...document.querySelectorAll('main :is(button, a, summary)')].map((it) => it.innerText)"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("access")
    (directory / "keys").write_bytes(Fernet.generate_key())
    settings = [
        "--callback-hosts", "http://127.0.0.1", "--callback-networks", "127.0.0.0/8",
        "--callback-key-file", str(directory / "keys"),
        "--access-file", str(access_file(directory, GRANTS)),
    ]  # fmt: skip
    with LocalCluster(1, settings=settings, token="admin") as group:
        yield group.urls[0]


@pytest.fixture
async def furnished(node: str) -> AsyncIterator[str]:
    """Yield a node with content for the pages; the reader has a subscription."""
    headers = {"Content-Type": "application/json", "Authorization": "Bearer admin"}
    async with aiohttp.ClientSession(node, headers=headers) as session, receiving() as receiver:
        await furnish(session)
        for name in "ab":
            await put(session, f"/notes/{name}", "{}")
        member = {"member": "m-1"}
        await ask(session, "POST", "/core/roles/pricing/members", member, 201)
        session.headers["Authorization"] = "Bearer reader"
        asked = {"callback": receiver.url}
        await ask(session, "POST", "/notes/subscriptions", asked, 201)
        yield node


async def test_each_user_is_offered_the_granted_actions(browser: Browser, furnished: str) -> None:
    await browser.open(f"{furnished}/core/ui#/nowhere")
    await browser.until("document.querySelector('dialog input')")
    await browser.press("Escape")
    for user in GRANTS:
        await browser.run(f"sessionStorage.setItem('docstore-token', '{user}')")
        for view, offered in OFFERED.items():
            await browser.shown(furnished, view)
            await browser.until("document.querySelector('main :is(table, .json, .empty)')")
            expected = {action for action, users in offered.items() if user in users}
            shown = ACTIONS.intersection(await browser.run(SHOWN))
            assert shown == expected, (user, view)
    assert all("401" in each for each in browser.troubles)


async def test_actions_that_are_not_offered_are_refused(furnished: str) -> None:
    """Some requests of the actions above, sent by a user without the grants."""
    headers = {"Authorization": "Bearer clerk"}
    broken = {"kind": "ExpireRequest"}
    async with aiohttp.ClientSession(furnished, headers=headers) as session:
        for method, path, body in (
            ("PUT", "/notes/b", {}),
            ("POST", "/core/factories", {"path": "/other"}),
            ("POST", "/core/streams", {"name": "other"}),
            ("PATCH", "/core/leases/nightly run~host-7", broken),
        ):
            await ask(session, method, path, body, 403)
        await ask(session, "PUT", "/notes/a", {}, 200)
