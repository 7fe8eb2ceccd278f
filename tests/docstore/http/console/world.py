"""Content for the pages of the console: factories, a topic, locks, elections and leases."""

from typing import Any

import aiohttp
from yarl import URL

HOUR_MS = 3_600_000
MADE = (
    ("/core/factories", {"path": "/notes"}), ("/core/factories", {"path": "/many"}),
    ("/core/factories", {"path": "/odd"}),
    ("/core/streams", {"name": "orders", "partitions": 2}),
    ("/core/roles", {"name": "pricing", "partitions": 4, "sessionMs": HOUR_MS}),
    ("/core/groups", {"name": "etl", "topics": ["orders"]}),
)  # fmt: skip
CANDIDATES = ("host-7", "host-8")
TURNS = (("locks", "nightly run", "AcquireRequest"), ("elections", "scheduler", "CampaignRequest"))


async def put(session: aiohttp.ClientSession, path: str, body: str) -> None:
    async with session.put(URL(path, encoded=True), data=body) as answer:
        assert answer.status in (200, 201), await answer.text()


async def furnish(session: aiohttp.ClientSession) -> None:
    """Create the content that is missing."""
    for path, asked in MADE:
        await ask(session, "POST", path, asked, 201, 409)
    for kind, name, request in TURNS:
        for candidate in CANDIDATES:
            lease = f"{name}~{candidate}"
            taken = {"documentSelfLink": lease, "ttlMs": HOUR_MS, "holder": candidate}
            await ask(session, "POST", "/core/leases", taken, 200, 201)
            asked = {"kind": request, "candidate": candidate, "lease": lease}
            await ask(session, "PATCH", f"/core/{kind}/{name}", asked, 200, 202)


async def ask(
    session: aiohttp.ClientSession, method: str, path: str, asked: Any, *expected: int
) -> None:
    """Send a request; check that its status is an expected one."""
    headers = {"Prefer": "wait=10"} if path == "/core/streams" else {}
    async with session.request(method, path, json=asked, headers=headers) as answer:
        assert answer.status in expected, await answer.text()
