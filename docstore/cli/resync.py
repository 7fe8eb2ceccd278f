"""`docstore resync`: start a resynchronisation and follow it to its end."""

import asyncio
import time
from typing import TYPE_CHECKING, Any

from docstore.cli.terminal import CommandFailed
from docstore.model.words import count

if TYPE_CHECKING:
    from rich.console import Console

    from docstore.client import Client

POLL_S = 0.1
UNDER_WAY = ("RUNNING", "PAUSED")

Page = dict[str, Any]


async def follow(client: "Client", request: Page, timeout_s: float, terminal: "Console") -> Page:
    """Return the page of a run when it is over, or cancelled. Raises CommandFailed.

    timeout_s: for how long to follow it; 0 for ever. It goes on afterwards, on the nodes.
    terminal: where to say how far it is, and what it waits for.
    """
    asked = {"kind": "SynchronizeRequest", **request}
    deadline = time.monotonic() + timeout_s
    with terminal.status("asking the owners of all slots"):
        page: Page = await client.json("PATCH", "/core/management", asked)
    with terminal.status(said(page)) as status:
        while page["state"] in UNDER_WAY:
            if timeout_s and time.monotonic() >= deadline:
                raise CommandFailed(f"it is not over after {timeout_s:g} s: {said(page)}")
            await asyncio.sleep(POLL_S)
            page = await client.json("GET", f"/core/management/synch?id={page['id']}")
            status.update(said(page))
    return page


def said(page: Page) -> str:
    """Return how far a run is, in one line."""
    slots, documents = page["slots"], page["documents"]
    waits_for = page["waitsFor"]
    return (
        f"{page['state']}: {slots['synchronised']} of {slots['total']} slots,"
        f" {count(documents['compared'], 'document')} compared,"
        f" {count(documents['copied'], 'row')} copied"
        + (f"; it waits: {waits_for}" if waits_for else "")
    )
