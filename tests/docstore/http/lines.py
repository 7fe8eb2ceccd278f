"""Lines of /core/bulk, and their results."""

import io
import json
from collections.abc import Iterable
from typing import Any

import aiohttp

Client = aiohttp.ClientSession
NDJSON = {"Content-Type": "application/x-ndjson"}


def ndjson(lines: Iterable[Any]) -> io.BytesIO:
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    return io.BytesIO(b"\n".join(raw))


async def bulk(client: Client, lines: Iterable[Any]) -> list[dict[str, Any]]:
    async with client.post("/core/bulk", data=ndjson(lines), headers=NDJSON) as response:
        assert response.status == 200
        assert response.content_type == "application/x-ndjson"
        return [json.loads(line) for line in (await response.text()).splitlines()]
