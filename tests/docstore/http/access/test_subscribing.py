"""The limit of subscriptions for each user, and requests that are sent twice."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cryptography.fernet import Fernet, MultiFernet

from docstore.http import subscriptions
from docstore.maintenance.webhooks.calling import Caller
from docstore.subscriptions.sealing import SecretSeal
from docstore.subscriptions.settings import callback_settings
from docstore.subscriptions.signing import secret_of
from docstore.subscriptions.targets import Targets
from tests.docstore.http.access.conftest import Asker
from tests.docstore.http.single import SingleNode
from tests.docstore.subscriptions.receiver import Receiver, receiving

PATH = "/tenant1/subscriptions"
SECRET, OTHER = secret_of(bytes(32)), secret_of(bytes(24))


@pytest.fixture
async def receiver(node: SingleNode) -> AsyncIterator[Receiver]:
    said = {"callback_hosts": "http://127.0.0.1", "callback_networks": "127.0.0.0/8"}
    targets = Targets(callback_settings({**said, "callback_key_file": "keys"}))
    node.caller = Caller(targets, SecretSeal(MultiFernet([Fernet(Fernet.generate_key())])))
    async with receiving() as receiver:
        yield receiver
    await node.caller.stop()


async def subscribe(
    asker: Asker, name: str, receiver: Receiver, *, key: str = "", path: str = PATH, **members: Any
) -> tuple[int, dict[str, Any]]:
    body = json.dumps({"callback": receiver.url, **members}).encode()
    head = {"Idempotency_Key": key} if key else {}
    status, content, _ = await asker.ask(name, "POST", path, body, **head)
    return status, json.loads(content)


async def test_subscriptions_of_a_user_are_limited(
    asker: Asker, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit counts the user's own: one user cannot take all that the group has."""
    monkeypatch.setattr(subscriptions, "OF_A_USER_MAX", 2)
    links = []
    for _ in range(2):
        status, page = await subscribe(asker, "tenant", receiver)
        assert status == 201
        links.append(page["documentSelfLink"])
    status, page = await subscribe(asker, "tenant", receiver)
    assert (status, page["errorCode"]) == (429, "too-many-subscriptions")
    assert receiver.challenged == 2
    assert (await subscribe(asker, "tenant-reader", receiver))[0] == 201
    assert (await asker.ask("tenant", "DELETE", links[0]))[0] == 200
    assert (await subscribe(asker, "tenant", receiver))[0] == 201


async def test_a_repeated_request_returns_its_subscription(
    asker: Asker, receiver: Receiver
) -> None:
    asked = {"key": "k1", "secret": SECRET, "where": "n > 1"}
    status, made = await subscribe(asker, "tenant", receiver, **asked)
    assert status == 201
    status, again = await subscribe(asker, "tenant", receiver, **asked)
    assert (status, again) == (200, made)
    assert "secret" not in again
    assert receiver.challenged == 1


@pytest.mark.parametrize(
    "other",
    [{"where": "n > 2"}, {"callback": "http://127.0.0.1:9/"}, {"secret": OTHER},
     {"path": "/tenant1/a/subscriptions"}],
)  # fmt: skip
async def test_a_key_used_for_another_subscription_is_409(
    asker: Asker, receiver: Receiver, other: dict[str, Any]
) -> None:
    asked = {"key": "k1", "secret": SECRET, "where": "n > 1"}
    assert (await subscribe(asker, "tenant", receiver, **asked))[0] == 201
    status, page = await subscribe(asker, "tenant", receiver, **{**asked, **other})
    assert (status, page["errorCode"]) == (409, "conflict")
    assert receiver.challenged == 1


async def test_users_have_separate_keys(asker: Asker, receiver: Receiver) -> None:
    links = set()
    for name in ("tenant", "tenant-reader"):
        status, page = await subscribe(asker, name, receiver, key="k1", secret=SECRET)
        assert status == 201
        links.add(page["documentSelfLink"])
    assert len(links) == 2


async def test_two_concurrent_requests_with_one_key_make_one_subscription(
    asker: Asker, receiver: Receiver
) -> None:
    asked = {"key": "k1", "secret": SECRET}
    both = await asyncio.gather(*[subscribe(asker, "tenant", receiver, **asked) for _ in range(2)])
    assert sorted(status for status, _ in both) == [200, 201]
    assert both[0][1] == both[1][1]


async def test_a_key_needs_a_secret(asker: Asker, receiver: Receiver) -> None:
    """A secret that the node made would be lost with the answer."""
    status, page = await subscribe(asker, "tenant", receiver, key="k1")
    assert (status, page["errorCode"]) == (400, "malformed")
    assert "secret" in page["detail"]
    assert receiver.challenged == 0


@pytest.mark.parametrize("at", ["/core/subscriptions", PATH])
async def test_a_listing_has_pages_of_the_users_own_subscriptions(
    asker: Asker, receiver: Receiver, at: str
) -> None:
    made = []
    for name in ("tenant-reader", "tenant", "tenant-reader", "tenant", "tenant-reader"):
        status, page = await subscribe(asker, name, receiver)
        assert status == 201
        made.append((name, page["documentSelfLink"]))
    own = sorted(link for name, link in made if name == "tenant-reader")
    found, path = [], f"{at}?$limit=2&$count=true&$expand=true"
    while path:
        status, content, _ = await asker.ask("tenant-reader", "GET", path)
        page = json.loads(content)
        assert (status, page["documentCount"], list(page["documents"])) == (
            200, len(own), page["documentLinks"]
        )  # fmt: skip
        assert len(page["documentLinks"]) <= 2
        found += page["documentLinks"]
        path = page.get("nextPageLink", "")
    assert found == own
