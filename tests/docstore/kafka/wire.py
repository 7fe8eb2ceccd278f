"""A client that sends the requests of a test, encoded and decoded by kio alone."""

import asyncio
import io
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

API_VERSIONS = 18
NOW_S = 10.0


class Fields(SimpleNamespace):
    """The fields of a request or of a part of it."""


class Wire:
    """One connection to a node."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._correlation = 0

    def send(self, key: int, version: int, /, **fields: Any) -> int:
        """Write a request; return its correlation id."""
        self._correlation += 1
        entity: Any = load_request_schema(key, version)
        out = io.BytesIO()
        header = entity.__header_schema__
        entity_writer(header)(
            out,
            Fields(
                request_api_key=key, request_api_version=version,
                correlation_id=self._correlation, client_id="wire",
            ),
        )  # fmt: skip
        entity_writer(entity)(out, Fields(**fields))
        raw = out.getvalue()
        self.writer.write(len(raw).to_bytes(4, "big") + raw)
        return self._correlation

    async def frame(self) -> bytes:
        """Return the next answer without its length."""
        async with asyncio.timeout(NOW_S):
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            return await self.reader.readexactly(size)

    async def answer(self, key: int, version: int) -> tuple[int, Any]:
        """Return the correlation id and the fields of the next answer."""
        raw = await self.frame()
        entity: Any = load_response_schema(key, version)
        begin = 5 if entity.__flexible__ and key != API_VERSIONS else 4
        found, size = entity_reader(entity)(raw, begin)
        assert begin + size == len(raw)
        return int.from_bytes(raw[:4], "big"), found

    async def ask(self, key: int, version: int, /, **fields: Any) -> Any:
        """Send a request, and return the fields of its answer."""
        sent = self.send(key, version, **fields)
        correlation, found = await self.answer(key, version)
        assert correlation == sent
        return found

    async def is_closed(self) -> bool:
        """Say whether the node closes the connection without a further byte."""
        async with asyncio.timeout(NOW_S):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Wire]:
    """Connect to a node, and disconnect at the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()


def topics(*names: str) -> Sequence[Fields]:
    """Return topics as Metadata asks for them."""
    return [Fields(name=name) for name in names]
