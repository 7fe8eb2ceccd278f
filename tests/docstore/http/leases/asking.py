"""Requests to leases, for tests over HTTP."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

Session = aiohttp.ClientSession
LEASES = "/core/leases"


async def ask(
    node: Session, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    """Return the status, and the page or the code of the problem."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with node.request(method, path, json=body, headers=named) as response:
        page = await response.json(content_type=None) if await response.read() else None
        if response.status >= 400:
            assert response.content_type == "application/problem+json"
            return response.status, page["errorCode"]
        return response.status, page


async def granted(node: Session, ttl_ms: int = 30_000, **members: Any) -> str:
    """Create a lease; return its link."""
    status, page = await ask(node, "POST", LEASES, {"ttlMs": ttl_ms, **members})
    assert status == 201, page
    return str(page["documentSelfLink"])


async def kept_alive(node: Session, lease: str) -> tuple[int, Any]:
    return await ask(node, "PATCH", lease, {"kind": "KeepAliveRequest"})


async def revoked(node: Session, lease: str) -> None:
    status, page = await ask(node, "DELETE", lease)
    assert (status, page["state"]) == (200, "ended")


async def until(is_so: Callable[[], Awaitable[bool]], timeout_s: float = 10.0) -> None:
    """Return once a condition holds. Raises TimeoutError."""
    async with asyncio.timeout(timeout_s):
        while not await is_so():
            await asyncio.sleep(0.02)
