"""The commands that change who the members are: join, leave, remove, replace, cancel."""

import asyncio
from typing import Any

import typer
from rich.console import Console

from docstore.client import Client, ClientError

GROUP = "/core/node-groups/default"
POLL_S = 0.2
Json = dict[str, Any]


async def entry_of(url: str) -> Json:
    """Return how a node that runs at `url` is named in a request to take it in."""
    async with Client([url]) as node:
        page = await node.json("GET", "/core/management")
    return {"id": page["id"], "storeId": page["storeId"], "address": page["addresses"]["http"],
            "zone": page["zone"]}  # fmt: skip


async def address_of(client: Client, member: str) -> str:
    """Return where a member's clients reach it, as configured. Raises BadParameter."""
    page = await client.json("GET", GROUP)
    known = {each["id"]: each["address"] for each in page["configuration"]["members"]}
    if member not in known:
        raise typer.BadParameter(f"{member} is not a member; say where the new node is")
    return str(known[member])


async def change(client: Client, request: Json, out: Console | None) -> Json:
    """Ask for a change; with `out`, follow it to its end. Returns the configuration."""
    page = await client.json("PATCH", GROUP, request)
    now: Json = page["configuration"]
    said = ""
    while out is not None and now["stage"] != "stable":
        line = f"{now['stage']}: {now['change']['slotsReady']} of {now['slots']} slots"
        if line != said:
            out.print(line, highlight=False)
        said = line
        await asyncio.sleep(POLL_S)
        try:
            page = await client.json("GET", GROUP)
        except ClientError:
            continue  # It may be the very node that leaves.
        leader = page["configuration"]["leader"]
        now = await _at_leader(page, leader)
    return now


async def _at_leader(page: Json, leader: str | None) -> Json:
    """Return the configuration as its leader sees it: only there is the progress known."""
    now: Json = page["configuration"]
    url = next((each["address"] for each in now["members"] if each["id"] == leader), "")
    try:
        async with Client([url], timeout_s=2.0) as client:
            found: Json = (await client.json("GET", GROUP))["configuration"]
            return found if found["id"] >= now["id"] else now
    except (ClientError, ValueError):
        return now
