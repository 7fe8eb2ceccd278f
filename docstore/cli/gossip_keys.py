"""`docstore gossip-key`: list, install, use and remove the keys that encrypt gossip."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from docstore.cli.terminal import DEFAULT_URLS, FAILED, AsJson, Urls, show, talk

if TYPE_CHECKING:
    from docstore.client import Client

gossip_key = typer.Typer(
    no_args_is_help=True, help="The keys that encrypt gossip, on all members of the group."
)
PAGE = "/core/node-groups/default/gossip-keys"
Json = dict[str, Any]
Key = Annotated[str, typer.Argument(metavar="ID", help="Id of the key, as `list` shows it.")]


@gossip_key.command("list")
def list_keys(url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Show the ids of all keys, and which members hold and use them."""
    page = talk(url, lambda client: client.json("GET", PAGE))
    if as_json:
        show(page)
    else:
        _tell(page)
    if any("problem" in each for each in page["members"]):
        raise typer.Exit(FAILED)


@gossip_key.command()
def install(
    key: Annotated[
        str, typer.Argument(metavar="[ID]", help="A key that the node at --url holds; none: new.")
    ] = "",
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Have all members install a key: they open what it seals."""
    _change(url, "InstallKeyRequest", key, as_json=as_json)


@gossip_key.command()
def use(key: Key, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Have all members seal with a key that all of them hold."""
    _change(url, "UseKeyRequest", key, as_json=as_json)


@gossip_key.command()
def remove(key: Key, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Have all members forget a key that none of them uses."""
    _change(url, "RemoveKeyRequest", key, as_json=as_json)


@gossip_key.command()
def rotate(url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Install a new key, use it, and remove all others."""

    async def work(client: "Client") -> Json:
        page = await _step(client, "InstallKeyRequest")
        key = page["key"]
        typer.echo(f"{key} is installed", err=as_json)
        page = await _step(client, "UseKeyRequest", key)
        typer.echo(f"{key} is in use", err=as_json)
        for old in sorted(_holders(page).keys() - {key}):
            await _step(client, "RemoveKeyRequest", old)
            typer.echo(f"{old} is removed", err=as_json)
        return {**await client.json("GET", PAGE), "key": key}

    page = talk(url, work)
    if as_json:
        show(page)


def _change(urls: list[str], kind: str, key: str, *, as_json: bool) -> None:
    page = talk(urls, lambda client: _step(client, kind, key))
    if as_json:
        show(page)
    else:
        _tell(page)


async def _step(client: "Client", kind: str, key: str = "") -> Json:
    page: Json = await client.json("PATCH", PAGE, {"kind": kind} | ({"id": key} if key else {}))
    return page


def _holders(page: Json) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in page["members"]:
        for key in each["keys"]:
            found.setdefault(key, []).append(each["id"])
    return found


def _tell(page: Json) -> None:
    """Print a line for each key, and one for each member that cannot take a step."""
    users = {each["id"]: each["keys"][0] for each in page["members"] if each["keys"]}
    for key, holders in sorted(_holders(page).items()):
        using = [name for name in holders if users[name] == key]
        used = f", in use on {', '.join(using)}" if using else ""
        typer.echo(f"{key}: installed on {', '.join(holders)}{used}")
    for each in page["members"]:
        if "problem" in each:
            typer.echo(f"{each['id']}: {each['problem']}", err=True)
