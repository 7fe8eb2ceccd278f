"""End the turn of the holder of a lock or of a leader from outside, without two at a time.

The holder's process is not asked. Its lease is expired: keep-alives are rejected, so the process
finds by its own clock, after two thirds of the TTL at the latest, that it holds nothing. Only then
may another candidate's turn begin: at the end of the lease, or, for a transfer, shortly before.
"""

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from docstore.cli.terminal import CommandFailed, path_of
from docstore.client import RequestFailed
from docstore.ownership.proof import lapse_s
from docstore.sessions.holder import WINDOW

if TYPE_CHECKING:
    from docstore.client import Client

POLL_S = 0.05
Json = dict[str, Any]


async def read(client: "Client", scope: str, name: str) -> Json:
    """Return the document of a lock or an election. scope: locks or elections."""
    page: Json = await client.json("GET", path_of(f"/core/{scope}", name))
    return page


async def end(client: "Client", scope: str, name: str, *, now: bool) -> tuple[str, str]:
    """End the turn of the holder; return its name, and that of the next one, "" for none.

    now: its process has certainly stopped. Raises CommandFailed if there is no holder.
    """
    holder = _holder(await read(client, scope, name), name)
    if now:
        await client.json("DELETE", quote(holder["lease"]))
    else:
        await client.json("PATCH", quote(holder["lease"]), {"kind": "ExpireRequest"})
    while True:
        page = await read(client, scope, name)
        following = page["holder"]
        if following is None or following["lease"] != holder["lease"]:
            return str(holder["candidate"]), str(following["candidate"]) if following else ""
        await asyncio.sleep(POLL_S)


async def transfer(client: "Client", name: str, to: str, *, now: bool) -> tuple[str, str]:
    """Make a waiting candidate the leader; return the name of the leader before, and of the new.

    now: the leader's process has certainly stopped. Raises CommandFailed.
    """
    page = await read(client, "elections", name)
    holder = _holder(page, name)
    waiting = [each["candidate"] for each in page["queue"]]
    if to not in waiting:
        others = f"waiting are {', '.join(waiting)}" if waiting else "no candidate waits"
        raise CommandFailed(f"{to} does not wait to lead {name}: {others}")
    if not now:
        await _wait_until_known(client, holder["lease"])
    asked = {"kind": "TransferRequest", "candidate": holder["candidate"], "token": page["token"]}
    try:
        await client.json("PATCH", path_of("/core/elections", name), asked | {"to": to})
    except RequestFailed as error:
        if error.code not in ("not-holder", "other-token", "not-queued"):
            raise
        leader = (await read(client, "elections", name))["holder"] or {"candidate": "no candidate"}
        raise CommandFailed(
            f"the lead passed to {leader['candidate']} meanwhile, not to {to}; look with"
            f" `docstore election show {name}`, and repeat the command"
        ) from None
    return str(holder["candidate"]), to


def _holder(page: Json, name: str) -> Json:
    holder: Json | None = page["holder"]
    if holder is None:
        raise CommandFailed(f"no candidate holds {name}; there is nothing to end")
    if holder["lease"] is None:
        raise CommandFailed(
            f"you may not see the lease of {holder['candidate']}: use a token with `write` at"
            " /core/leases"
        )
    return holder


async def _wait_until_known(client: "Client", lease: str) -> None:
    """Expire a lease, and wait until its holder's own clock says that it is over (S7)."""
    page: Json = await client.json("PATCH", quote(lease), {"kind": "ExpireRequest"})
    # Each keep-alive that was answered was sent before the lease began to expire.
    await asyncio.sleep(lapse_s(page["ttlMs"] / 1000 * WINDOW))
