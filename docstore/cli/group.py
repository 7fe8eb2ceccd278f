"""The commands that change who the members are: join, leave, remove, replace, cancel."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from docstore.cli.terminal import (
    DEFAULT_URLS,
    AsJson,
    CommandFailed,
    Urls,
    show,
    talk,
)

if TYPE_CHECKING:
    from docstore.client import Client

app = typer.Typer()
command = partial(app.command, rich_help_panel="Members of the group")
GROUP = "/core/node-groups/default"
POLL_S = 0.2
Json = dict[str, Any]

Wait = Annotated[bool, typer.Option(help="Follow the change to its end.")]
Force = Annotated[bool, typer.Option(help="Also when fewer than three remain.")]


@command()
def join(
    node: Annotated[str, typer.Argument(help="Address of a node that waits (--standby).")],
    url: Urls = DEFAULT_URLS,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Take a node into the group."""

    async def request(client: "Client") -> Json:
        return {"kind": "AddMemberRequest", "member": await _newcomer(client, node)}

    _change(url, request, wait=wait, as_json=as_json)


@command()
def replace(
    member: str,
    node: Annotated[str, typer.Argument(help="Address of the new node; none: the same.")] = "",
    url: Urls = DEFAULT_URLS,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Put a node, or a new disk of the same node, into a member's place."""

    async def request(client: "Client") -> Json:
        entry = await _newcomer(client, node or await _address_of(client, member))
        return {"kind": "ReplaceMemberRequest", "id": member, "member": entry}

    _change(url, request, wait=wait, as_json=as_json)


@command()
def remove(
    member: str,
    force: Force = False,
    url: Urls = DEFAULT_URLS,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Take a member out of the group, dead or alive."""

    async def request(_: "Client") -> Json:
        return {"kind": "RemoveMemberRequest", "id": member, "force": force}

    _change(url, request, wait=wait, as_json=as_json)


@command()
def leave(force: Force = False, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Have the node at --url leave the group, and stop it."""

    async def work(node: "Client") -> tuple[str, Json]:
        page = await node.json("GET", "/core/management")
        request = {"kind": "RemoveMemberRequest", "id": page["id"], "force": force}
        now = await _follow(node, request, _teller(as_json=as_json))
        await node.json("DELETE", "/core/management")
        return str(page["id"]), now

    gone, now = talk(url[:1], work)
    if as_json:
        show(now)
    else:
        typer.echo(f"{gone} has left and stops")


@command()
def cancel(url: Urls = DEFAULT_URLS, wait: Wait = True, as_json: AsJson = False) -> None:
    """Undo the change of the group that is under way."""

    async def request(_: "Client") -> Json:
        return {"kind": "CancelChangeRequest"}

    _change(url, request, wait=wait, as_json=as_json)


def _change(
    urls: list[str],
    request: "Callable[[Client], Awaitable[Json]]",
    *,
    wait: bool,
    as_json: bool,
) -> None:
    """Ask the group for a change, and say what came of it."""

    async def work(client: "Client") -> Json:
        tell = _teller(as_json=as_json) if wait else None
        return await _follow(client, await request(client), tell)

    now = talk(urls, work)
    if as_json:
        show(now)
        return
    members = ", ".join(each["id"] for each in now["members"])
    typer.echo(f"configuration {now['id']} is {now['stage']}: {members}")


def _teller(*, as_json: bool) -> Callable[[str], None]:
    """Return what tells of the progress: where it does not get between the JSON and its reader."""
    return lambda line: typer.echo(line, err=as_json)


async def _newcomer(client: "Client", url: str) -> Json:
    """Return how the node at `url` is named in a request to take it in. Raises CommandFailed."""
    async with client.to([url]) as node:
        page = await node.json("GET", "/core/management")
    group = await client.json("GET", GROUP)
    stores = {each["storeId"] for each in group["configuration"]["members"]}
    if page["ready"] and page["storeId"] not in stores:  # The group would wait for it for ever.
        raise CommandFailed(
            f"{url} serves a group of its own; start it on an empty directory with --standby"
        )
    return {"id": page["id"], "storeId": page["storeId"], "address": page["addresses"]["http"],
            "zone": page["zone"]}  # fmt: skip


async def _address_of(client: "Client", member: str) -> str:
    """Return where a member's clients reach it, as configured. Raises BadParameter."""
    page = await client.json("GET", GROUP)
    known = {each["id"]: each["address"] for each in page["configuration"]["members"]}
    if member not in known:
        raise typer.BadParameter(f"{member} is not a member; say where the new node is")
    return str(known[member])


async def _follow(client: "Client", request: Json, tell: Callable[[str], None] | None) -> Json:
    """Ask for a change; with `tell`, follow it to its end. Return the configuration.

    Raises CommandFailed if another caller has cancelled it.
    """
    import asyncio

    from docstore.client import ClientError

    page = await client.json("PATCH", GROUP, request)
    now: Json = page["configuration"]
    said = ""
    while tell is not None and now["stage"] != "stable":
        line = f"{now['stage']}: {now['change']['slotsReady']} of {now['slots']} slots"
        if line != said:
            tell(line)
        said = line
        await asyncio.sleep(POLL_S)
        try:
            page = await client.json("GET", GROUP)
        except ClientError:
            continue  # It may be the very node that leaves.
        leader = page["configuration"]["leader"]
        now = await _at_leader(client, page, leader)
    if tell is not None:
        _insist_on_made(request, {each["id"] for each in now["members"]})
    return now


def _insist_on_made(request: Json, members: set[str]) -> None:
    """Raise CommandFailed if a change that was asked for has ended and was not made."""
    comes, goes = request.get("member", {}).get("id"), request.get("id")
    if (comes and comes not in members) or (goes and goes in members and goes != comes):
        raise CommandFailed("the group is as it was: the change was cancelled")


async def _at_leader(client: "Client", page: Json, leader: str | None) -> Json:
    """Return the configuration as its leader sees it: only there is the progress known."""
    from docstore.client import ClientError

    now: Json = page["configuration"]
    url = next((each["address"] for each in now["members"] if each["id"] == leader), "")
    try:
        async with client.to([url], timeout_s=2.0) as node:
            found: Json = (await node.json("GET", GROUP))["configuration"]
            return found if found["id"] >= now["id"] else now
    except (ClientError, ValueError):
        return now
