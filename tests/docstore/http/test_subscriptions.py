"""Requests for subscriptions that end without a callback."""

import aiohttp
import pytest
from cryptography.fernet import Fernet, MultiFernet

from docstore.http import subscriptions
from docstore.maintenance.webhooks.calling import Caller
from docstore.subscriptions.sealing import SecretSeal
from docstore.subscriptions.settings import callback_settings
from docstore.subscriptions.targets import Targets
from tests.docstore.http.problem import problem_of
from tests.docstore.http.single import SingleNode

PATH = "/core/examples/subscriptions"
HOOK = {"callback": "https://hooks.example/"}


async def test_a_subscription_without_the_setting_is_refused(client: aiohttp.ClientSession) -> None:
    async with client.post(PATH, json=HOOK) as response:
        assert (await problem_of(response, 400))["errorCode"] == "callback-refused"


async def test_subscriptions_of_a_group_are_limited(
    client: aiohttp.ClientSession, node: SingleNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = callback_settings({"callback_hosts": "*", "callback_key_file": "keys"})
    node.caller = Caller(
        Targets(settings), SecretSeal(MultiFernet([Fernet(Fernet.generate_key())]))
    )
    monkeypatch.setattr(subscriptions, "SUBSCRIPTIONS_MAX", 0)
    async with client.post(PATH, json=HOOK) as response:
        assert (await problem_of(response, 429))["errorCode"] == "too-many-subscriptions"


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("OPTIONS", PATH, 204, "DELETE, GET, HEAD, OPTIONS, POST"),
        ("PUT", PATH, 405, "DELETE, GET, HEAD, OPTIONS, POST"),
        ("OPTIONS", "/core/subscriptions", 204, "GET, HEAD, OPTIONS"),
        ("POST", "/core/subscriptions", 405, "GET, HEAD, OPTIONS"),
        ("OPTIONS", "/core/subscriptions/1", 204, "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("PUT", "/core/subscriptions/1", 405, "DELETE, GET, HEAD, OPTIONS, PATCH"),
    ],
)
async def test_each_path_of_subscriptions_allows_its_methods(
    client: aiohttp.ClientSession, method: str, path: str, status: int, allow: str
) -> None:
    async with client.request(method, path, json={}) as response:
        assert (response.status, response.headers["Allow"]) == (status, allow)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/core/subscriptions/1", 404),
        ("PATCH", "/core/subscriptions/1", 404),
        ("DELETE", "/core/subscriptions/1", 404),
        ("DELETE", f"{PATH}?id=1", 404),
        ("DELETE", PATH, 400),
        ("DELETE", f"{PATH}?name=1", 400),
        ("GET", f"{PATH}?$limit=0", 400),
        ("GET", f"{PATH}?limit=1", 400),
        ("GET", f"{PATH}?$filter=delivered gt 1", 400),
        ("GET", "/no/where/subscriptions", 404),
        ("POST", "/subscriptions", 404),
    ],
)
async def test_a_missing_subscription_or_invalid_query_is_refused(
    client: aiohttp.ClientSession, method: str, path: str, status: int
) -> None:
    async with client.request(method, path, json={"kind": "PauseRequest"}) as response:
        await problem_of(response, status)


async def test_a_subscription_is_not_written_as_a_document(client: aiohttp.ClientSession) -> None:
    line = {"op": "PUT", "link": "/core/subscriptions/1", "body": {}}
    async with client.post(
        "/core/bulk", json=line, headers={"Content-Type": "application/x-ndjson"}
    ) as response:
        assert (await response.json(content_type=None))["status"] == 405
