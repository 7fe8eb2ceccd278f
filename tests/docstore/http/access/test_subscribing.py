"""Who has how many subscriptions, and what becomes of a request that is made twice."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cryptography.fernet import Fernet, MultiFernet

from docstore.http import subscriptions
from docstore.subscriptions.calling import Caller
from docstore.subscriptions.sealing import Seal
from docstore.subscriptions.settings import callback_settings
from docstore.subscriptions.targets import Targets
from tests.docstore.http.access.conftest import Asker
from tests.docstore.http.single import SingleNode
from tests.docstore.subscriptions.receiver import Receiver, receiving

PATH = "/tenant1/subscriptions"


@pytest.fixture
async def receiver(node: SingleNode) -> AsyncIterator[Receiver]:
    said = {"callback_hosts": "http://127.0.0.1", "callback_networks": "127.0.0.0/8"}
    targets = Targets(callback_settings({**said, "callback_key_file": "keys"}))
    node.caller = Caller(targets, Seal(MultiFernet([Fernet(Fernet.generate_key())])))
    async with receiving() as receiver:
        yield receiver
    await node.caller.stop()


async def subscribe(
    asker: Asker, name: str, receiver: Receiver, **members: Any
) -> tuple[int, dict[str, Any]]:
    body = json.dumps({"callback": receiver.url, **members}).encode()
    status, content, _ = await asker.ask(name, "POST", PATH, body)
    return status, json.loads(content)


async def test_a_user_has_so_many(
    asker: Asker, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many others have: nobody takes all that the group has."""
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
