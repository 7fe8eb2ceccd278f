"""The commands on leases: make one, keep it alive, list them, end one."""

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from docstore.cli.completing import names
from docstore.cli.tables import print_table
from docstore.cli.terminal import (
    DEFAULT_URLS,
    AsJson,
    CommandFailed,
    Ttl,
    Urls,
    failed,
    path_of,
    read_all,
    show,
    talk,
    tell,
)

if TYPE_CHECKING:
    from docstore.client import Client

PANEL = "Locks, elections, groups"
lease = typer.Typer(
    no_args_is_help=True, help="Leases: they expire unless their holder keeps them alive."
)
LEASES = "/core/leases"
Id = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="Id of the lease, as `list` shows it.", autocompletion=names(LEASES)
    ),
]
Json = dict[str, Any]


@lease.command("create")
def create(
    ttl: Ttl = 10.0,
    name: Annotated[
        str, typer.Option("--id", help="Id of the lease; without it, one is generated.")
    ] = "",
    release: Annotated[
        bool,
        typer.Option(help="Keep the attached documents when the lease ends; else delete them."),
    ] = False,
    holder: Annotated[str, typer.Option(help="Name of the holder, for people.")] = "",
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Create a lease. It expires after --ttl seconds unless it is kept alive."""
    asked: Json = {
        "ttlMs": round(ttl * 1000), "behavior": "release" if release else "delete",
        "holder": holder,
    }  # fmt: skip
    if name:
        asked["documentSelfLink"] = name
    page = talk(url, lambda client: client.json("POST", LEASES, asked))
    tell(page, page["documentSelfLink"].rpartition("/")[2], as_json)


@lease.command("keep")
def keep(
    name: Id,
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Keep a lease alive until it is lost or this command is stopped; the lease is not ended."""
    talk(url, lambda client: _keep(client, name, as_json=as_json))
    raise failed(CommandFailed(f"lease {name} has ended; create another one to go on"))


async def _keep(client: "Client", name: str, *, as_json: bool) -> None:
    kept = client.lease(name=name)
    await kept.adopt()
    tell(
        {"id": name, "ttlMs": round(kept.ttl_s * 1000)},
        f"{name}: kept alive for {kept.ttl_s:g} s at a time",
        as_json,
    )
    await kept.lost.wait()


@lease.command("list")
def list_leases(url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """List the leases and the time that each has left."""
    pages = talk(url, _leases)
    if as_json:
        show(pages)
        return
    rows = []
    for page in pages:
        left = page.get("remainingMs")
        rows.append((
            page["documentSelfLink"].rpartition("/")[2], page["holder"], page["state"],
            f"{page['ttlMs'] / 1000:g} s", "-" if left is None else f"{left / 1000:.1f} s",
            str(len(page["attached"])),
        ))  # fmt: skip
    columns = ("lease", "holder", "state", "ttl", "left", "attached")
    print_table(columns, rows, empty="there are no leases; `docstore lease create` makes one")


async def _leases(client: "Client") -> list[Json]:
    return await read_all(client, [quote(each) async for each in client.links(LEASES)])


@lease.command("revoke")
def revoke(
    name: Id,
    now: Annotated[
        bool,
        typer.Option("--now", help="End it at once; only if its holder has certainly stopped."),
    ] = False,
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Expire a lease: keep-alives are rejected, and it ends when its time to live is over."""
    page = talk(url, lambda client: _revoke(client, name, now=now))
    tell(page, f"{name}: {page['state']}", as_json)


async def _revoke(client: "Client", name: str, *, now: bool) -> Json:
    link = path_of(LEASES, name)
    page: Json
    if now:
        page = await client.json("DELETE", link)
    else:
        page = await client.json("PATCH", link, {"kind": "ExpireRequest"})
    return page
