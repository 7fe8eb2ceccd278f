"""The tables of docs/conditions.md at a real node, in every way to send it a condition."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import aiohttp
import pytest

from docstore.client import Client, LocalCluster
from tests.docstore.cli.test_commands import docstore
from tests.docstore.query.table import FACTORY, LINES, Line, documents, names_of
from tests.docstore.reads.events import events
from tests.docstore.reads.scans.asking import asked
from tests.docstore.subscriptions.receiver import Receiver, receiving

AT_ONCE = 8
Ask = Callable[[aiohttp.ClientSession, str, str], Awaitable[list[str]]]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(base64.b64encode(bytes(32)).decode())
    keys.chmod(0o600)
    callbacks = ["--callback-hosts", "http://127.0.0.1", "--callback-networks", "127.0.0.0/8"]
    settings = ["--slots", "8", *callbacks, "--callback-key-file", str(keys)]

    async def fill(url: str) -> None:
        async with Client([url]) as store:
            await store.declare(FACTORY)
            for link, body in documents().items():
                await store.put(link, body)

    with LocalCluster(1, settings=settings) as group:
        asyncio.run(fill(group.urls[0]))
        yield group.urls[0]


async def of_filter(http: aiohttp.ClientSession, url: str, condition: str) -> list[str]:
    _, page = await asked(http, url, FACTORY, **{"$filter": condition})
    return names_of(page["documentLinks"])


async def of_where(http: aiohttp.ClientSession, url: str, condition: str) -> list[str]:
    body = {"path": FACTORY, "where": condition, "filter": condition, "orderBy": "title desc"}
    _, page = await asked(http, url, "/core/query-tasks", body)
    return names_of(page["documentLinks"])


async def of_groups(http: aiohttp.ClientSession, url: str, condition: str) -> list[str]:
    body = {"path": FACTORY, "filter": condition, "groupBy": "documentSelfLink as link"}
    _, page = await asked(http, url, "/core/query-tasks", body)
    return names_of(each["link"] for each in page["groups"])


async def of_feed(http: aiohttp.ClientSession, url: str, condition: str) -> list[str]:
    body = {"prefix": FACTORY, "since": "earliest", "where": condition}
    async with http.post(f"{url}/core/changes", json=body) as answer:
        *changes, _ = [json.loads(line) for line in (await answer.read()).splitlines()]
    return names_of(each["documentSelfLink"] for each in changes)


async def of_watch(http: aiohttp.ClientSession, url: str, condition: str) -> list[str]:
    query = {"watch": "", "since": "earliest", "where": condition}
    found: list[str] = []
    async with http.get(url + FACTORY, params=query) as answer:
        stream = events(answer)
        await anext(stream)  # The position at which it begins.
        async for each in stream:
            if each.get("event") != "change":
                break
            found.append(json.loads(each["data"])["documentSelfLink"])
    return names_of(found)


@pytest.mark.parametrize("ask", [of_filter, of_where, of_groups, of_feed, of_watch])
async def test_a_node_finds_the_documents_of_the_page(
    http: aiohttp.ClientSession, url: str, ask: Ask
) -> None:
    assert len(LINES) > 70
    for first in range(0, len(LINES), AT_ONCE):
        lines = LINES[first : first + AT_ONCE]
        found = await asyncio.gather(*(ask(http, url, each.condition) for each in lines))
        for line, names in zip(lines, found, strict=True):
            assert names == line.names, line.condition


@pytest.mark.thorough
@pytest.mark.parametrize("command", ["ls", "watch"])
def test_a_command_finds_the_documents_of_the_page(url: str, command: str) -> None:
    """A command passes conditions on unchanged, so a part of them is enough: each is a process."""
    some = LINES[::4]

    def run(condition: str) -> list[str]:
        how = ["--filter", condition]
        if command == "watch":
            how = ["--where", condition, "--since", "earliest", "--once"]
        status, out, error = docstore(command, FACTORY, *how, "--url", url)
        assert status == 0, error
        lines = out.splitlines()
        if command == "watch":
            lines = [json.loads(line)["documentSelfLink"] for line in lines]
        return names_of(lines)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(run, [each.condition for each in some])
        for line, names in zip(some, found, strict=True):
            assert names == line.names, line.condition


def has_at_least(receiver: Receiver, count: int) -> bool:
    return len(receiver.changes) >= count


@pytest.mark.thorough
async def test_webhooks_deliver_the_documents_of_the_page(
    http: aiohttp.ClientSession, url: str
) -> None:
    at_once = asyncio.Semaphore(AT_ONCE)

    async def deliver(line: Line) -> None:
        async with at_once, receiving() as receiver:
            body: dict[str, Any] = {"callback": receiver.url, "where": line.condition}
            path = f"{url}{FACTORY}/subscriptions"
            async with http.post(path, json=body | {"since": "earliest"}) as answer:
                page = await answer.json()
                assert answer.status == 201, page
            await receiver.until(partial(has_at_least, receiver, len(line.names)))
            found = names_of(each["documentSelfLink"] for each in receiver.changes)
            assert found == line.names, line.condition
            await http.delete(url + page["documentSelfLink"])

    await asyncio.gather(*map(deliver, LINES))
