"""Watches that are refused; tests/docstore/reads/scans/test_changes.py has the others."""

import aiohttp
import pytest

from tests.docstore.http.problem import problem_of


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("/nobody/nothing?watch", 404),
        ("/nobody?watch=true", 404),
        ("/core/examples?watch&prefix=/films", 400),
        ("/core/examples?watch&$limit=5", 400),
        ("/core/examples?watch&limit=0", 400),
        ("/core/examples/a?watch&where=n =", 400),
    ],
)
async def test_an_invalid_watch_is_refused(
    client: aiohttp.ClientSession, asked: str, status: int
) -> None:
    async with client.get(asked) as response:
        await problem_of(response, status)


async def test_only_get_watches(client: aiohttp.ClientSession) -> None:
    async with client.head("/core/examples?watch") as response:
        assert response.status == 400
    async with client.post("/core/examples?watch", json={"name": "x"}) as response:
        assert "'watch'" in (await problem_of(response, 400))["detail"]
