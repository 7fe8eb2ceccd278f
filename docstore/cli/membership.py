"""The commands that change the members of a group: join, leave, remove, replace, cancel."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from docstore.cli.completing import members
from docstore.cli.terminal import DEFAULT_URLS, AsJson, CommandFailed, Urls, show, talk, tell

if TYPE_CHECKING:
    from docstore.client import Client

app = typer.Typer()
command = partial(app.command, rich_help_panel="Members of the group")
GROUP = "/core/node-groups/default"
POLL_S = 0.2
Json = dict[str, Any]

Member = Annotated[
    str, typer.Argument(help="Id of the member, as `status` shows it.", autocompletion=members)
]
Wait = Annotated[bool, typer.Option(help="Wait until the change is complete.")]
Force = Annotated[bool, typer.Option(help="Allow fewer than three remaining members.")]


@command()
def join(
    node: Annotated[str, typer.Argument(help="URL of a node that was started with --standby.")],
    url: Urls = DEFAULT_URLS,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Add a node to the group."""

    async def request(client: "Client") -> Json:
        return {"kind": "AddMemberRequest", "member": await _newcomer(client, node)}

    _change(url, request, wait=wait, as_json=as_json)


@command()
def replace(
    member: Member,
    node: Annotated[
        str, typer.Argument(help="URL of the new node; without it, that of the member.")
    ] = "",
    url: Urls = DEFAULT_URLS,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Replace a member by another node, or by the same node with a new disk."""

    async def request(client: "Client") -> Json:
        entry = await _newcomer(client, node or await _address_of(client, member))
        return {"kind": "ReplaceMemberRequest", "id": member, "member": entry}

    _change(url, request, wait=wait, as_json=as_json)


@command()
def remove(
    member: Member,
    force: Force = False,
    url: Urls = DEFAULT_URLS,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Remove a member from the group, whether it runs or not."""

    async def request(_: "Client") -> Json:
        return {"kind": "RemoveMemberRequest", "id": member, "force": force}

    _change(url, request, wait=wait, as_json=as_json)


@command()
def leave(force: Force = False, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Remove the node at --url from the group, and stop it."""

    async def work(node: "Client") -> tuple[str, Json]:
        page = await node.json("GET", "/core/management")
        request = {"kind": "RemoveMemberRequest", "id": page["id"], "force": force}
        now = await _follow(node, request, _teller(as_json=as_json))
        await node.json("DELETE", "/core/management")
        return str(page["id"]), now

    gone, now = talk(url[:1], work)
    tell(now, f"{gone} has left the group and stops", as_json)


@command()
def cancel(url: Urls = DEFAULT_URLS, wait: Wait = True, as_json: AsJson = False) -> None:
    """Cancel the unfinished change of the members."""

    async def request(_: "Client") -> Json:
        return {"kind": "CancelChangeRequest"}

    _change(url, request, wait=wait, as_json=as_json)


def _change(
    urls: list[str], request: "Callable[[Client], Awaitable[Json]]", *, wait: bool, as_json: bool
) -> None:
    """Request a change of the group, and print its outcome."""

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
    """Return a function that prints progress, to standard error if the output is JSON."""
    return lambda line: typer.echo(line, err=as_json)


async def _newcomer(client: "Client", url: str) -> Json:
    """Return the entry of the node at `url` for a request to add it. Raises CommandFailed."""
    async with client.to([url]) as node:
        page = await node.json("GET", "/core/management")
    group = await client.json("GET", GROUP)
    stores = {each["storeId"] for each in group["configuration"]["members"]}
    # The node has a group already, so this group would wait for it for ever.
    if page["ready"] and page["storeId"] not in stores:
        raise CommandFailed(
            f"{url} is a member of another group; start it with --standby on an empty directory"
        )
    return {"id": page["id"], "storeId": page["storeId"], "address": page["addresses"]["http"],
            "zone": page["zone"]}  # fmt: skip


async def _address_of(client: "Client", member: str) -> str:
    """Return a member's address for clients. Raises BadParameter."""
    page = await client.json("GET", GROUP)
    known = {each["id"]: each["address"] for each in page["configuration"]["members"]}
    if member not in known:
        raise typer.BadParameter(
            f"{member} is not a member, but {', '.join(known)}; or give the URL of a new node"
        )
    return str(known[member])


async def _follow(client: "Client", request: Json, tell: Callable[[str], None] | None) -> Json:
    """Request a change; with `tell`, wait for its end. Return the configuration.

    Raises CommandFailed if another caller cancelled it.
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
            continue  # The asked node may be the one that leaves.
        leader = page["configuration"]["leader"]
        now = await _at_leader(client, page, leader)
    if tell is not None:
        _insist_on_made(request, {each["id"] for each in now["members"]})
    return now


def _insist_on_made(request: Json, members: set[str]) -> None:
    """Raise CommandFailed if the requested change ended without effect."""
    comes, goes = request.get("member", {}).get("id"), request.get("id")
    if (comes and comes not in members) or (goes and goes in members and goes != comes):
        raise CommandFailed("the change was cancelled by another caller; the members are as before")


async def _at_leader(client: "Client", page: Json, leader: str | None) -> Json:
    """Return the configuration from its leader, the only node that knows the progress."""
    from docstore.client import ClientError

    now: Json = page["configuration"]
    url = next((each["address"] for each in now["members"] if each["id"] == leader), "")
    try:
        async with client.to([url], timeout_s=2.0) as node:
            found: Json = (await node.json("GET", GROUP))["configuration"]
            return found if found["id"] >= now["id"] else now
    except (ClientError, ValueError):
        return now
