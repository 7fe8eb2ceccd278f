"""`docstore resync`: start a resynchronisation and wait for its end."""

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
    """Start a run; return its page when it is finished or cancelled. Raises CommandFailed.

    timeout_s: seconds to wait, 0 for no limit; the nodes continue the run afterwards.
    terminal: console for the progress.
    """
    asked = {"kind": "SynchronizeRequest", **request}
    deadline = time.monotonic() + timeout_s
    with terminal.status("asking the owners of all slots"):
        page: Page = await client.json("PATCH", "/core/management", asked)
    with terminal.status(said(page)) as status:
        while page["state"] in UNDER_WAY:
            if timeout_s and time.monotonic() >= deadline:
                raise CommandFailed(
                    f"the resync continues on the nodes after {timeout_s:g} s: {said(page)}"
                )
            await asyncio.sleep(POLL_S)
            page = await client.json("GET", f"/core/management/synch?id={page['id']}")
            status.update(said(page))
    return page


def said(page: Page) -> str:
    """Return the progress of a run in one line."""
    slots, documents = page["slots"], page["documents"]
    reasons = [f"waiting: {page['waitsFor']}"] if page["waitsFor"] else page["errors"]
    return (
        f"{page['state']}: {slots['synchronised']} of {slots['total']} slots,"
        f" {count(documents['compared'], 'document')} compared,"
        f" {count(documents['copied'], 'row')} copied"
        + "".join(f"; {reason}" for reason in reasons)
    )
