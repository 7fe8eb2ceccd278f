"""HTTP over the simulated network: one request on a connection of its own."""

import asyncio
import json
from typing import Any


async def ask(
    at: tuple[str, int], verb: str, path: str, body: Any = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, dict[str, str], Any]:  # fmt: skip
    """Return status, headers and body. Raises what a broken connection raises."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    wire, _ = await loop.create_connection(lambda: protocol, *at)
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    named = {"Host": "{}:{}".format(*at), "Content-Length": str(len(raw)), "Connection": "close"}
    if raw:
        named["Content-Type"] = "application/json"
    lines = [f"{verb} {path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in {**named, **(headers or {})}.items()]
    wire.write("\r\n".join(lines).encode() + b"\r\n\r\n" + raw)
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *rest = head.decode().strip().split("\r\n")
        fields = {k.lower(): v for k, _, v in (line.partition(": ") for line in rest)}
        content = await reader.readexactly(int(fields.get("content-length", 0)))
    finally:
        wire.close()
    is_json = fields.get("content-type", "").startswith("application/json") or b"\n" not in content
    page = json.loads(content) if content and is_json else content.decode() or None
    return int(first.split()[1]), fields, page
