"""Subscriptions of real nodes: the calls to receivers, also when a node dies."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest

from docstore.client import Client, LocalCluster
from tests.docstore.subscriptions.receiver import Receiver, receiving
from tests.docstore.watching import start_all

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
SEAL = base64.b64encode(KEY).decode()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"{SEAL}\n")
    keys.chmod(0o600)
    settings = [
        "--slots", "64", "--callback-hosts", "http://127.0.0.1", "--callback-retry-s", "0.01",
        "--callback-networks", "127.0.0.0/8", "--callback-key-file", str(keys),
    ]  # fmt: skip
    with LocalCluster(3, settings=settings) as group:
        yield group


@pytest.fixture
def group(nodes: LocalCluster) -> LocalCluster:
    start_all(nodes)
    return nodes


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving(KEY) as receiver:
        yield receiver


@pytest.fixture
async def factory(store: Client, request: pytest.FixtureRequest) -> str:
    path = "/" + request.node.name.split("[")[0].replace("_", "-")
    await store.declare(path)
    return path


class Api:
    """Sends requests to any node."""

    def __init__(self, session: aiohttp.ClientSession, urls: list[str]) -> None:
        self._session = session
        self._urls = urls

    async def __call__(
        self, method: str, path: str, body: Any = None, *, at: int = 0
    ) -> tuple[int, dict[str, Any]]:
        async with self._session.request(method, self._urls[at] + path, json=body) as answer:
            return answer.status, await answer.json(content_type=None)

    async def status(self, path: str, *, at: int) -> int:
        async with self._session.get(self._urls[at] + path) as answer:
            return answer.status

    async def subscribe(self, path: str, receiver: Receiver, **members: Any) -> dict[str, Any]:
        """Return the document of a new subscription."""
        body = {"callback": receiver.url, "secret": SECRET, **members}
        status, page = await self("POST", f"{path}/subscriptions", body)
        assert status == 201, page
        return page

    async def until(self, link: str, **wanted: Any) -> dict[str, Any]:
        """Return a document once it has these members."""
        async with asyncio.timeout(20):
            while True:
                _, page = await self("GET", link)
                if all(page.get(name) == value for name, value in wanted.items()):
                    return page
                await asyncio.sleep(0.05)


@pytest.fixture
async def api(group: LocalCluster) -> AsyncIterator[Api]:
    async with aiohttp.ClientSession() as session:
        yield Api(session, group.urls)


async def test_each_change_is_delivered_in_order(
    store: Client, api: Api, receiver: Receiver, factory: str
) -> None:
    await store.put(f"{factory}/before", {"n": 0})
    page = await api.subscribe(factory, receiver)
    assert receiver.challenged == 1
    for n in range(20):
        await store.put(f"{factory}/{n % 3}", {"n": n})
    await store.delete(f"{factory}/0")
    await receiver.until(lambda: len(receiver.changes) >= 21)
    assert receiver.by_document == {
        f"{factory}/0": list(range(8)), f"{factory}/1": list(range(7)),
        f"{factory}/2": list(range(6)),
    }  # fmt: skip
    last = [each for each in receiver.changes if each["documentSelfLink"] == f"{factory}/0"][-1]
    assert (last["deleted"], last["body"]) == (True, None)
    assert receiver.most_under_way == 1
    assert receiver.forged == 0
    assert page["documentSelfLink"] == receiver.calls[0]["subscription"]
    assert "secret" not in page


async def test_a_condition_selects_changes(
    store: Client, api: Api, receiver: Receiver, factory: str
) -> None:
    """Scenario 27: each change of matching documents once, and those that match no longer."""
    await api.subscribe(factory, receiver, where="n > 1", before=True)
    for n in (0, 1, 2, 3, 0):
        await store.put(f"{factory}/a", {"n": n})
    await store.put(f"{factory}/b", {"n": 7})
    await receiver.until(lambda: len(receiver.changes) >= 4)
    assert receiver.by_document == {f"{factory}/a": [2, 3, 4], f"{factory}/b": [0]}
    seen = [
        (each["event"], each["before"])
        for each in receiver.changes
        if each["documentSelfLink"] == f"{factory}/a"
    ]
    assert seen == [("enter", {"n": 1}), ("update", {"n": 2}), ("leave", {"n": 3})]


async def test_present_documents_are_delivered_first(
    store: Client, api: Api, receiver: Receiver, factory: str
) -> None:
    """Scenario 65: each present document once, and after that each change."""
    await store.declare(f"{factory}/deep")
    links = [f"{factory}/{n}" for n in range(105)] + [f"{factory}/deep/{n}" for n in range(3)]
    async with asyncio.TaskGroup() as group:
        for link in links:
            group.create_task(store.put(link, {"n": 0}))
    await store.put(f"{factory}/7", {"n": 1})
    await store.delete(f"{factory}/8")
    await api.subscribe(factory, receiver, replayState=True)
    for n in range(2, 5):
        await store.put(f"{factory}/7", {"n": n})
    await receiver.until(lambda: len(receiver.by_document.get(f"{factory}/7", ())) == 4)
    documents = [call for call in receiver.calls if call["type"] == "documents"]
    found = [each["documentSelfLink"] for call in documents for each in call["changes"]]
    assert found == sorted(found)
    assert sorted(found) == sorted(set(links) - {f"{factory}/8"})
    assert receiver.by_document[f"{factory}/7"] == [1, 2, 3, 4]
    assert [call["type"] for call in receiver.calls] == sorted(
        (call["type"] for call in receiver.calls), reverse=True
    )
    later = await changes_since(store, factory, documents[-1]["next"])
    assert [each["documentVersion"] for each in later] == [2, 3, 4]


async def changes_since(store: Client, path: str, token: str) -> list[dict[str, Any]]:
    async for found in store.changes(path, since=token, wait_s=1):
        return list(found.changes)
    raise AssertionError


async def test_a_document_is_delivered_first_and_then_followed(
    store: Client, api: Api, receiver: Receiver, factory: str
) -> None:
    for n in range(3):
        await store.put(f"{factory}/a", {"n": n})
        await store.put(f"{factory}/b", {"n": n})
    await api.subscribe(f"{factory}/a", receiver, replayState=True)
    await store.put(f"{factory}/b", {})
    await store.put(f"{factory}/a", {"n": 3})
    await receiver.until(lambda: len(receiver.changes) == 2)
    assert receiver.by_document == {f"{factory}/a": [2, 3]}


async def test_a_dead_receiver_is_paused_and_resumed(
    store: Client, api: Api, receiver: Receiver, factory: str
) -> None:
    page = await api.subscribe(factory, receiver)
    link = page["documentSelfLink"]
    receiver.always = 500
    await store.put(f"{factory}/a", {"n": 0})
    page = await api.until(link, state="paused")
    assert page["why"] == "its receiver has failed 5 times: it answers 500"
    assert len(receiver.ids) == 5
    assert len(set(receiver.ids)) == 1, "the same message has the same id"
    await store.put(f"{factory}/a", {"n": 1})
    receiver.always = 0
    status, page = await api("PATCH", link, {"kind": "ResumeRequest"})
    assert (status, page["state"], page["why"]) == (200, "active", "")
    await receiver.until(lambda: len(receiver.changes) == 2)
    assert receiver.by_document == {f"{factory}/a": [0, 1]}


async def test_a_receiver_that_recovers_misses_nothing(
    store: Client, api: Api, receiver: Receiver, factory: str
) -> None:
    await api.subscribe(factory, receiver)
    receiver.statuses = [503, 302, 500, 429]
    for n in range(5):
        await store.put(f"{factory}/a", {"n": n})
    await receiver.until(lambda: receiver.by_document.get(f"{factory}/a") == list(range(5)))


async def test_a_receiver_that_answers_410_ends_its_subscription(
    store: Client, api: Api, receiver: Receiver, factory: str
) -> None:
    page = await api.subscribe(factory, receiver)
    receiver.always = 410
    await store.put(f"{factory}/a", {})
    page = await api.until(page["documentSelfLink"], state="ended")
    assert "410" in page["why"]
    status, page = await api("PATCH", page["documentSelfLink"], {"kind": "ResumeRequest"})
    assert (status, page["errorCode"]) == (409, "conflict")
    assert len(receiver.ids) == 1


async def test_an_ended_subscription_makes_no_call(
    store: Client, api: Api, receiver: Receiver, factory: str
) -> None:
    """End subscriptions by DELETE, by a pause, and by their expiry."""
    deleted = await api.subscribe(factory, receiver)
    paused = await api.subscribe(factory, receiver)
    over_us = int((time.time() + 1.5) * 1e6)
    expiring = await api.subscribe(factory, receiver, documentExpirationTimeMicros=over_us)
    _, page = await api("GET", f"{factory}/subscriptions")
    links = [each["documentSelfLink"] for each in (deleted, paused, expiring)]
    assert sorted(page["documentLinks"]) == sorted(links)
    name = deleted["documentSelfLink"].rpartition("/")[2]
    assert (await api("DELETE", f"/core/examples/subscriptions?id={name}"))[0] == 404
    assert (await api("DELETE", f"{factory}/subscriptions?id={name}"))[0] == 200
    status, page = await api("PATCH", links[1], {"kind": "PauseRequest", "why": "holidays"})
    assert (status, page["state"], page["why"]) == (200, "paused", "holidays")
    await api.until(links[2], errorCode="not-found")
    await store.put(f"{factory}/a", {})
    witness = await api.subscribe(factory, receiver, since="earliest")
    await receiver.until(lambda: receiver.changes)
    assert {call["subscription"] for call in receiver.calls} == {witness["documentSelfLink"]}


@pytest.mark.thorough
async def test_a_draining_node_saves_its_mark(
    group: LocalCluster, store: Client, api: Api, receiver: Receiver, factory: str
) -> None:
    page = await api.subscribe(factory, receiver)
    link, owner = page["documentSelfLink"], group.node(page["documentOwner"])
    at = next(n for n, node in enumerate(group.nodes) if node is not owner)
    async with Client([node.url for node in group.nodes if node is not owner]) as writer:
        for n in range(3):
            await writer.put(f"{factory}/a", {"n": n})
        await receiver.until(lambda: receiver.by_document == {f"{factory}/a": [0, 1, 2]})
        async with asyncio.timeout(20):
            await api("DELETE", "/core/management", at=group.nodes.index(owner))
            while owner.process is not None and owner.process.poll() is None:
                await asyncio.sleep(0.05)
        _, page = await api("GET", link, at=at)
        assert page["delivered"] == 3
        await writer.put(f"{factory}/a", {"n": 3})
        await receiver.until(lambda: len(receiver.changes) >= 4)
    assert [each["documentVersion"] for each in receiver.changes] == [0, 1, 2, 3], "no doubles"
    owner.process = None


async def test_a_subscription_survives_the_death_of_its_node(
    group: LocalCluster, store: Client, api: Api, receiver: Receiver, factory: str
) -> None:
    """Scenario 65: no change is missing, and repeated ones are equal."""
    page = await api.subscribe(factory, receiver)
    owner = next(node for node in group.nodes if node.name == page["documentOwner"])
    others = [node for node in group.nodes if node is not owner]
    async with Client([node.url for node in others]) as writer:
        await writer.put(f"{factory}/0", {"n": 0})
        await receiver.until(lambda: receiver.changes)
        group.kill(owner)
        for n in range(1, 30):
            await writer.put(f"{factory}/{n % 4}", {"n": n})
        wanted = {f"{factory}/{n}": list(range(8 if n < 2 else 7)) for n in range(4)}
        await receiver.until(lambda: receiver.by_document == wanted)
    found: dict[tuple[str, int], Any] = {}
    for each in receiver.changes:
        name = each["documentSelfLink"], each["documentVersion"]
        assert found.setdefault(name, each) == each


@pytest.mark.thorough
async def test_compacted_history_ends_a_subscription(
    group: LocalCluster, store: Client, api: Api, receiver: Receiver, factory: str
) -> None:
    page = await api.subscribe(factory, receiver)
    link = page["documentSelfLink"]
    await api("PATCH", link, {"kind": "PauseRequest"})
    for n in range(3):  # A version under a key stays for ten minutes.
        last = await store.put(f"{factory}/a", {"n": n}, key="")
    before = {"kind": "CompactRequest", "beforeMicros": last.value["documentUpdateTimeMicros"]}
    statuses = set()
    async with asyncio.timeout(180):
        while statuses != {410}:
            for at in range(3):
                await api("PATCH", "/core/management", before, at=at)
            since = f"/core/changes?prefix={factory}&since={page['position']}"
            statuses = {(await api.status(since, at=at)) for at in range(3)}
            await asyncio.sleep(0.1)
    await api("PATCH", link, {"kind": "ResumeRequest"})
    page = await api.until(link, state="ended")
    assert receiver.changes == []
    found = await changes_since(store, factory, page["earliest"])
    # The position names all slots: that of the factory may be compacted later than others.
    every = [{"n": n} for n in range(3)]
    assert [each["body"] for each in found] == every[len(every) - len(found) :]


async def test_a_secret_is_shown_once_and_found_nowhere(
    group: LocalCluster, store: Client, api: Api, factory: str
) -> None:
    async with receiving() as receiver:
        body = {"callback": receiver.url}
        status, page = await api("POST", f"{factory}/subscriptions", body)
        assert status == 201
        secret, link = page["secret"], page["documentSelfLink"]
        receiver.key = base64.b64decode(secret.removeprefix("whsec_"))
        await store.put(f"{factory}/a", {})
        await receiver.until(lambda: receiver.changes)
        assert receiver.forged == 0
    seen = [
        await api("GET", link), await api("GET", f"{link}/versions"),
        await api("GET", "/core/subscriptions?expand"), await api("DELETE", link),
    ]  # fmt: skip
    assert [status for status, _ in seen] == [200] * 4
    found: list[Any] = []
    async with asyncio.timeout(20):  # A feed is a little late.
        while link not in {each["documentSelfLink"] for each in found}:
            found = await changes_since(store, "/core/subscriptions", "earliest")
    logs = "".join((node.data / "log.txt").read_text() for node in group.nodes)
    for text in (json.dumps(seen), json.dumps(found), logs):
        assert secret.removeprefix("whsec_")[:20] not in text


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "refused-by-service"),
        ({"callback": "https://127.0.0.1/"}, 400, "callback-refused"),
        ({"callback": "http://127.0.0.2/"}, 400, "callback-refused"),
        ({"secret": "whsec_c2hvcnQ="}, 400, "malformed"),
        ({"where": "n >"}, 400, "malformed"),
        ({"since": "~onsense"}, 400, "malformed"),
        ({"since": "latest", "replayState": True}, 400, "malformed"),
        ({"sins": "latest"}, 400, "refused-by-service"),
    ],
)
async def test_an_invalid_subscription_is_refused(
    api: Api, receiver: Receiver, body: dict[str, Any], status: int, code: str
) -> None:
    asked = body if not body or "callback" in body else {"callback": receiver.url, **body}
    answered, page = await api("POST", "/core/examples/subscriptions", asked)
    assert (answered, page["errorCode"]) == (status, code)
    assert receiver.challenged == 0


@pytest.mark.parametrize("path", ["/nobody/nothing", "/weak", "/weak/a"])
async def test_a_subscription_needs_a_path_with_a_feed(
    store: Client, api: Api, receiver: Receiver, path: str
) -> None:
    await store.declare("/weak", options=["PERSISTENCE", "REPLICATION"])
    status, _ = await api("POST", f"{path}/subscriptions", {"callback": receiver.url})
    assert status == (404 if path.startswith("/nobody") else 409)
    assert receiver.challenged == 0


async def test_a_receiver_that_fails_the_challenge_is_not_called(api: Api, factory: str) -> None:
    async with receiving(b"another key") as receiver:
        body = {"callback": receiver.url, "secret": SECRET}
        status, page = await api("POST", f"{factory}/subscriptions", body)
    assert (status, page["errorCode"]) == (400, "callback-refused")
    assert "401" in page["detail"]
    _, page = await api("GET", f"{factory}/subscriptions")
    assert page["documentLinks"] == []
