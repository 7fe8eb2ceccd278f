"""Requests to streams, for tests over HTTP."""

import itertools
from collections.abc import Mapping
from typing import Any

import aiohttp

NDJSON = {"Content-Type": "application/x-ndjson"}
MSGPACK = {"Content-Type": "application/msgpack"}
Session = aiohttp.ClientSession

_numbers = itertools.count()


async def created(node: Session, **members: Any) -> str:
    """Create a topic with an unused name; return its path."""
    name = f"t{next(_numbers)}"
    async with node.post("/core/streams", json={"name": name, **members}) as response:
        assert response.status == 201, await response.text()
        assert response.headers["Location"] == f"/core/streams/{name}"
    return f"/core/streams/{name}"


async def posted(node: Session, path: str, body: Any, **headers: str) -> dict[str, Any]:
    """Append records; return the answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with node.post(path, json=body, headers=named) as response:
        assert response.status == 200, await response.text()
        return dict(await response.json())


async def read(node: Session, path: str, query: str = "", **headers: str) -> dict[str, Any]:
    """Return records and the position after them."""
    named = {"Accept": "application/json"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    async with node.get(f"{path}/records{query}", headers=named) as response:
        assert response.status == 200, await response.text()
        return dict(await response.json())


def values(found: Mapping[str, Any]) -> list[Any]:
    return [record["value"] for record in found["records"]]


async def partitions(node: Session, topic: str) -> list[dict[str, Any]]:
    """Return the pages of a topic's partitions."""
    async with node.get(f"{topic}/partitions") as response:
        assert response.status == 200, await response.text()
        return list((await response.json())["partitions"])
