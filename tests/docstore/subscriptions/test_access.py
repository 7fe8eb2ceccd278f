"""Access to subscriptions: a user needs the right to read all of the path, all the time."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography.fernet import Fernet

from docstore.client import LocalCluster
from docstore.errors import BadRequest
from docstore.query.cut import unpack_part
from tests.docstore.access.tokens import digest
from tests.docstore.subscriptions.receiver import Receiver, receiving

pytestmark = pytest.mark.thorough

GRANTS: Mapping[str, Mapping[str, str]] = {
    "ann": {"/films": "read"},
    "ben": {"/films": "read"},
    "cyd": {"/films/a": "write"},
    "eve": {},
    "operator": {"/": "admin"},
}
"""User -> grants. The name is the token, too."""


def access_file(directory: Path, grants: Mapping[str, Mapping[str, str]]) -> Path:
    lines = []
    for name, levels in grants.items():
        lines += [f"[roles.{name}]", *(f'"{path}" = "{level}"' for path, level in levels.items())]
        lines += [f"[users.{name}]", f'tokens = ["{digest(name)}"]', f'roles = ["{name}"]']
    path = directory / "access.toml"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("access")


@pytest.fixture(scope="module")
def nodes(directory: Path) -> Iterator[LocalCluster]:
    (directory / "keys").write_bytes(Fernet.generate_key())
    settings = [
        "--slots", "16", "--callback-hosts", "http://127.0.0.1",
        "--callback-networks", "127.0.0.0/8", "--callback-key-file", str(directory / "keys"),
        "--access-file", str(access_file(directory, GRANTS)),
    ]  # fmt: skip
    with LocalCluster(1, settings=settings, token="operator") as group:
        yield group


class Asker:
    """Sends requests as any user."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def __call__(
        self, user: str, method: str, path: str, body: Any = None
    ) -> tuple[int, dict[str, Any]]:
        head = {"Authorization": f"Bearer {user}"}
        async with self._session.request(method, path, json=body, headers=head) as answer:
            return answer.status, json.loads(await answer.read())

    async def changes(self, user: str, path: str, since: str) -> list[Any]:
        """Return the bodies in the feed of a path after a token."""
        asked = {"prefix": path, "since": since}
        head = {"Authorization": f"Bearer {user}"}
        async with self._session.post("/core/changes", json=asked, headers=head) as answer:
            assert answer.status == 200, await answer.text()
            return [json.loads(line)["body"] for line in (await answer.text()).splitlines()[:-1]]


@pytest.fixture
async def ask(nodes: LocalCluster) -> AsyncIterator[Asker]:
    async with aiohttp.ClientSession(nodes.urls[0]) as session:
        ask = Asker(session)
        await ask("operator", "POST", "/core/factories", {"path": "/films"})
        yield ask


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


@pytest.mark.parametrize(
    ("user", "path", "status"),
    [
        ("ann", "/films", 201),
        ("ann", "/films/a", 201),
        ("ann", "/core/examples", 404),
        ("cyd", "/films", 404),
        ("cyd", "/films/a", 201),
        ("cyd", "/films/b", 404),
        ("eve", "/films", 404),
        ("operator", "/core/factories", 201),
        ("operator", "/core/subscriptions", 400),
        ("ann", "/core/subscriptions", 404),
        ("nobody", "/films", 401),
    ],
)
async def test_a_subscription_needs_the_right_to_read_all_of_its_path(
    ask: Asker, receiver: Receiver, user: str, path: str, status: int
) -> None:
    asked = {"callback": receiver.url}
    answered, page = await ask(user, "POST", f"{path}/subscriptions", asked)
    assert answered == status, page
    assert receiver.challenged == (status == 201)
    if status == 201:
        assert (await ask("operator", "DELETE", page["documentSelfLink"]))[0] == 200


async def test_a_subscription_is_visible_to_its_user_and_admins_only(
    ask: Asker, receiver: Receiver
) -> None:
    """Hide a user's subscription from others, as its callback may be a secret."""
    asked = {"callback": receiver.url}
    _, page = await ask("ann", "POST", "/films/subscriptions", asked)
    link = page["documentSelfLink"]
    patch = {"kind": "PauseRequest"}
    for user, status in (("ben", 404), ("cyd", 404), ("eve", 404), ("ann", 200), ("operator", 200)):
        assert (await ask(user, "GET", link))[0] == status
        assert (await ask(user, "PATCH", link, patch))[0] == status
        for at in ("/films/subscriptions", "/core/subscriptions"):
            _, listed = await ask(user, "GET", at)
            assert listed["documentLinks"] == ([link] if status == 200 else []), (user, at)
    for at in (f"/core/changes?since=earliest&prefix={link}", f"{link}/versions"):
        assert (await ask("ben", "GET", at))[0] == 404
    assert (await ask("ben", "DELETE", link))[0] == 404
    assert (await ask("ann", "DELETE", link))[0] == 200


@pytest.mark.parametrize("gone", [{"ann": {"/films/b": "read"}}, None], ids=["grant", "user"])
async def test_a_user_without_the_right_to_read_gets_no_more_calls(
    directory: Path, ask: Asker, receiver: Receiver, gone: Any
) -> None:
    _, page = await ask("ann", "POST", "/films/subscriptions", {"callback": receiver.url})
    link = page["documentSelfLink"]
    await ask("ben", "PUT", "/films/a", {"n": 0})
    await ask("operator", "PUT", "/films/a", {"n": 1})
    await receiver.until(lambda: receiver.changes)
    others = {name: levels for name, levels in GRANTS.items() if name != "ann"}
    try:
        access_file(directory, others | (gone or {}))
        async with asyncio.timeout(20):
            while (await ask("ann", "GET", "/films/a"))[0] == 200:  # The file is read each second.
                await asyncio.sleep(0.05)
        known = len(receiver.changes)
        await ask("operator", "PUT", "/films/a", {"n": 2})
        async with asyncio.timeout(20):
            while (await ask("operator", "GET", link))[1]["state"] != "paused":
                await asyncio.sleep(0.05)
        assert len(receiver.changes) == known
    finally:
        access_file(directory, GRANTS)
    async with asyncio.timeout(20):
        while (await ask("ann", "GET", "/films/a"))[0] != 200:
            await asyncio.sleep(0.05)
    assert (await ask("ann", "PATCH", link, {"kind": "ResumeRequest"}))[0] == 200
    await receiver.until(lambda: receiver.changes[-1]["body"] == {"n": 2})
    await ask("ann", "DELETE", link)


@pytest.mark.parametrize("user", ["ann", "operator"])
async def test_positions_do_not_count_the_changes_of_other_paths(
    ask: Asker, receiver: Receiver, user: str
) -> None:
    """Seal positions, as an admin of /films sees subscriptions of users with more rights."""
    _, made = await ask(user, "POST", "/films/subscriptions", {"callback": receiver.url})
    link = made["documentSelfLink"]
    await ask("operator", "PUT", "/films/a", {"n": f"first of {user}"})
    await receiver.until(lambda: receiver.changes)
    receiver.always = 410
    await ask("operator", "PUT", "/films/a", {"n": f"second of {user}"})
    async with asyncio.timeout(20):
        while (await ask(user, "GET", link))[1]["state"] != "ended":
            await asyncio.sleep(0.05)
    _, page = await ask(user, "GET", link)
    _, listed = await ask(user, "GET", "/films/subscriptions?$expand=true")
    _, history = await ask("operator", "GET", f"{link}/versions")
    token_sent = receiver.calls[0]["next"]
    assert token_sent == page["position"] == listed["documents"][link]["position"]
    for token in (
        token_sent,
        made["position"],
        *(each["position"] for each in history["versions"]),
    ):
        with pytest.raises(BadRequest):
            unpack_part(token)
    for reader in ("ann", "operator"):
        assert await ask.changes(reader, "/films", token_sent) == [{"n": f"second of {user}"}]
    await ask(user, "DELETE", link)
