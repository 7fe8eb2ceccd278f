"""The Fence header in requests and answers."""

from typing import Any

import aiohttp
import pytest

from tests.docstore.http.conftest import BOTH_WAYS, Declare
from tests.docstore.http.problem import problem_of

pytestmark = BOTH_WAYS

Client = aiohttp.ClientSession


async def put(client: Client, link: str, fence: str | None, state: Any = None) -> Any:
    headers = {} if fence is None else {"Fence": fence}
    return await client.put(link, json=state or {"a": 1}, headers=headers)


async def test_n14_a_write_under_an_older_token_is_409_and_changes_nothing(
    client: Client, factory: str
) -> None:
    link = f"{factory}/a"
    async with await put(client, link, "roles/pricing/3:1234") as response:
        assert response.status == 201
        assert response.headers.getall("Fence") == ["roles/pricing/3:1234"]
    async with await put(client, link, "roles/pricing/3:1233", {"a": "late"}) as response:
        problem = await problem_of(response, 409)
        assert (problem["errorCode"], problem["outcome"]) == ("fenced", "not_applied")
        assert response.headers.getall("Fence") == ["roles/pricing/3:1234"]
    async with client.get(link) as response:
        shown = await response.json()
        assert (shown["a"], shown["documentVersion"]) == (1, 0)
        assert response.headers.getall("Fence") == ["roles/pricing/3:1234"]


async def test_every_kind_of_update_is_fenced(client: Client, factory: str) -> None:
    link = f"{factory}/a"
    async with client.post(
        factory, json={"documentSelfLink": link}, headers={"Fence": "l:5"}
    ) as response:
        assert response.status == 201
    late = {"Fence": "l:4"}
    async with client.patch(link, json={"b": 1}, headers=late) as response:
        assert (await problem_of(response, 409))["errorCode"] == "fenced"
    async with client.delete(link, headers=late) as response:
        assert (await problem_of(response, 409))["errorCode"] == "fenced"
    async with client.delete(link, headers={"Fence": "l:6"}) as response:
        assert response.status == 200
    async with await put(client, link, "l:5") as response:
        assert (await problem_of(response, 409))["errorCode"] == "fenced"
    async with await put(client, link, "l:6") as response:
        assert response.status == 201


@pytest.mark.parametrize(
    "raw", ["", "l", ":5", "l:", "l:-1", "l:5.0", "a b:1", "x" * 201 + ":1", "x:9,y:6", "x:9, y:6"]
)
async def test_a_malformed_fence_is_400(client: Client, factory: str, raw: str) -> None:
    async with await put(client, f"{factory}/a", raw) as response:
        assert "Fence" in (await problem_of(response, 400))["detail"]


async def test_a_second_fence_is_refused(client: Client, factory: str) -> None:
    twice = [("Fence", "a:1"), ("Fence", "b:1")]
    async with client.put(f"{factory}/a", json={}, headers=twice) as response:
        assert "Fence must be sent at most once" in (await problem_of(response, 400))["detail"]
    async with client.get(f"{factory}/a") as response:
        assert response.status == 404


async def test_a_ninth_scope_is_409_and_changes_nothing(client: Client, factory: str) -> None:
    link = f"{factory}/a"
    for number in range(8):
        async with await put(client, link, f"s{number}:1") as response:
            assert response.status < 300
    async with await put(client, link, "s8:1") as response:
        problem = await problem_of(response, 409)
        assert (problem["errorCode"], "8 scopes" in problem["detail"]) == ("too-many-fences", True)
    async with client.get(link) as response:
        assert (await response.json())["documentVersion"] == 7
        assert len(response.headers.getall("Fence")) == 8


async def test_the_last_colon_separates_scope_and_token(client: Client, factory: str) -> None:
    async with await put(client, f"{factory}/a", "x:y:12") as response:
        assert response.headers.getall("Fence") == ["x:y:12"]


async def test_a_fence_is_refused_where_it_has_no_effect(client: Client, factory: str) -> None:
    async with client.post("/core/bulk", json={}, headers={"Fence": "l:5"}) as response:
        assert "Fence" in (await problem_of(response, 400))["detail"]


async def test_weaker_levels_refuse_a_fence(client: Client, declare: Declare) -> None:
    path = await declare(options=["PERSISTENCE", "REPLICATION"])
    async with await put(client, f"{path}/a", "l:5") as response:
        assert "level 3" in (await problem_of(response, 400))["detail"]


async def test_a_factory_may_require_a_fence(client: Client, declare: Declare) -> None:
    path = await declare(requiresFence=True)
    async with await put(client, f"{path}/a", None) as response:
        assert (await problem_of(response, 428))["errorCode"] == "fence-required"
    async with await put(client, f"{path}/a", "l:1") as response:
        assert response.status == 201
