"""Server-sent events as values."""

from collections.abc import AsyncIterator

import aiohttp


async def events(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, str]]:
    """Yield the events of a stream."""
    event: dict[str, str] = {}
    async for line in response.content:
        name, separator, value = line.decode().rstrip("\n").partition(": ")
        if separator and name:
            event[name] = value
        elif not separator and event:
            yield event
            event = {}
