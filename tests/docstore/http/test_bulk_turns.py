"""Lines that come together are submitted together, as many as may be in one turn of the loop."""

import asyncio
import json
from typing import Any

import pytest

import docstore.http.bulk
from docstore.http.large import LARGE_BYTES
from tests.docstore.http.lines import NDJSON, Client, bulk, ndjson
from tests.docstore.http.single import SingleNode


async def test_lines_in_a_row_are_submitted_together(
    client: Client, node: SingleNode, factory: str
) -> None:
    good = [{"link": f"{factory}/{n}", "body": {}} for n in range(5)]
    wrong = {"link": f"{factory}/stats", "body": {}}
    results = await bulk(client, [*good[:3], wrong, *good[3:], b""])
    assert [each["status"] for each in results] == [201, 201, 201, 400, 201, 201]
    assert node.batches == [3, 2]


@pytest.mark.parametrize(("beside", "batches"), [(False, [1, 200]), (True, [1, 64, 64, 64, 8])])
async def test_a_load_takes_short_turns_while_single_documents_are_asked_for(
    client: Client, node: SingleNode, factory: str, monkeypatch: pytest.MonkeyPatch,
    beside: bool, batches: list[int],
) -> None:  # fmt: skip
    monkeypatch.setattr(docstore.http.bulk, "BESIDE_S", 60.0)
    is_stored = asyncio.Event()

    async def lines() -> Any:
        yield ndjson([{"link": f"{factory}/first", "body": {}}, b""]).read()
        async with asyncio.timeout(5):
            await is_stored.wait()
        if beside:
            async with client.get(f"{factory}/first") as response:
                assert response.status == 200
        yield ndjson([*({"link": f"{factory}/{n}", "body": {}} for n in range(200)), b""]).read()

    async with client.post("/core/bulk", data=lines(), headers=NDJSON) as response:
        async for line in response.content:
            assert json.loads(line)["status"] == 201
            is_stored.set()
    assert node.batches == batches


async def test_nobody_waits_for_another_line(
    client: Client, node: SingleNode, factory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted_before = []

    async def find_service(path: str, timeout_s: float) -> None:
        submitted_before.append((path, list(node.batches)))

    monkeypatch.setattr(node, "find_service", find_service)
    large = "x" * LARGE_BYTES
    results = await bulk(
        client,
        [
            {"link": f"{factory}/1", "body": {}},
            {"link": "/nowhere/1", "body": {}},
            {"link": "/nowhere/2", "body": {}},
            {"link": f"{factory}/2", "body": {}},
            {"link": f"{factory}/3", "body": {"text": large}},
            {"link": f"{factory}/4", "body": {"text": large}},
        ],
    )
    assert [each["status"] for each in results] == [201, 404, 404, 201, 201, 201]
    assert submitted_before == [("/nowhere", [1])]  # Asked for once, and after what came before it.
    assert node.batches == [1, 1, 1, 1]
