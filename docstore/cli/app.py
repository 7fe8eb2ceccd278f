"""The commands that talk to a group: one function each, a table on a terminal, JSON on request."""

import asyncio
import contextlib
import importlib.util
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import orjson
import typer
from rich.console import Console
from rich.table import Table

from docstore.cli import demo as demonstration
from docstore.cli import force as forcing
from docstore.cli import group as membership
from docstore.cli import load as loading
from docstore.cli.status import show_status
from docstore.client import Client, ClientError
from docstore.errors import DocstoreError

app = typer.Typer(
    help="A replicated store of versioned JSON documents over HTTP.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out, err = Console(), Console(stderr=True)
T = TypeVar("T")

Urls = Annotated[
    list[str],
    typer.Option("--url", envvar="DOCSTORE_URL", help="A node; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Body = Annotated[str, typer.Argument(help="JSON; - reads standard input.")]
DEFAULT_URLS = ["http://127.0.0.1:8001"]


def talk(urls: list[str], work: Callable[[Client], Awaitable[T]]) -> T:
    """Run `work` with a client; end with one clear line when the group says no."""

    async def run() -> T:
        async with Client(urls) as client:
            return await work(client)

    try:
        return asyncio.run(run())
    except (ClientError, loading.BadFile) as error:
        err.print(f"docstore: {error}", highlight=False, markup=False, soft_wrap=True)
        raise typer.Exit(1) from None


def show(value: Any) -> None:
    """Print a value as indented JSON."""
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    if out.is_terminal:
        out.print_json(text)
    else:
        sys.stdout.write(text + "\n")


def _value(text: str) -> dict[str, Any]:
    raw = sys.stdin.read() if text == "-" else text
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise typer.BadParameter(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise typer.BadParameter("a document is a JSON object")
    return value


@app.command()
def serve() -> None:
    """Run one node (see `docstore serve --help`)."""


@app.command()
def status(url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Show members, owners and lag at a glance."""
    talk(url, lambda client: show_status(client, out, as_json=as_json))


@app.command()
def get(
    link: str,
    version: Annotated[int | None, typer.Option(help="A past version.")] = None,
    at: Annotated[str, typer.Option(help="A past time, RFC 3339 or microseconds.")] = "",
    url: Urls = DEFAULT_URLS,
) -> None:
    """Show a document as it is, or as it was."""
    show(talk(url, lambda client: client.get(link, version=version, at=at)).value)


@app.command()
def put(link: str, value: Body = "-", if_match: str = "", url: Urls = DEFAULT_URLS) -> None:
    """Replace or create a document with JSON (- reads standard input)."""
    state = _value(value)
    show(talk(url, lambda client: client.put(link, state, if_match=if_match)).value)


@app.command()
def patch(link: str, value: Body = "-", if_match: str = "", url: Urls = DEFAULT_URLS) -> None:
    """Change some fields of a document."""
    change = _value(value)
    show(talk(url, lambda client: client.patch(link, change, if_match=if_match)).value)


@app.command()
def post(factory: str, value: Body = "-", url: Urls = DEFAULT_URLS) -> None:
    """Create a document with an id of its own."""
    state = _value(value)
    show(talk(url, lambda client: client.post(factory, state)).value)


@app.command()
def delete(link: str, if_match: str = "", url: Urls = DEFAULT_URLS) -> None:
    """Delete a document; its history stays."""
    show(talk(url, lambda client: client.delete(link, if_match=if_match)).value)


@app.command()
def ls(factory: str, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """List the documents of a factory."""
    links = talk(url, lambda client: client.ls(factory))
    if as_json:
        show(links)
    else:
        sys.stdout.write("".join(f"{link}\n" for link in links))


@app.command()
def dump(factory: str, url: Urls = DEFAULT_URLS) -> None:
    """Print the documents of a factory, one JSON object a line."""
    for document in talk(url, lambda client: client.ls(factory, expand=True)):
        sys.stdout.write(orjson.dumps(document).decode() + "\n")


@app.command()
def history(link: str, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Show all versions of a document, newest first."""
    versions = talk(url, lambda client: client.history(link))
    if as_json:
        show(versions)
        return
    table = Table("version", "epoch", "owner", "action", "state", title=link)
    for each in versions:
        state = {key: value for key, value in each.items() if not key.startswith("document")}
        table.add_row(
            str(each["documentVersion"]), str(each["documentEpoch"]), each["documentOwner"],
            each["documentUpdateAction"], orjson.dumps(state).decode()[:100],
        )  # fmt: skip
    out.print(table)


@app.command()
def watch(
    path: Annotated[str, typer.Argument(help="A document, a factory; none: everything.")] = "",
    since: Annotated[
        str, typer.Option(help="earliest, a time with its zone, a snapshot, a token.")
    ] = "latest",
    where: Annotated[str, typer.Option(help='A condition, such as "rating > 7".')] = "",
    once: Annotated[bool, typer.Option(help="Only what is there already.")] = False,
    url: Urls = DEFAULT_URLS,
) -> None:
    """Print changes as they come, one JSON object a line."""

    async def follow(client: Client) -> None:
        async for found in client.changes(path, since=since, where=where, wait_s=1 if once else 20):
            for change in found.changes:
                sys.stdout.write(orjson.dumps(change).decode() + "\n")
            sys.stdout.flush()
            if once and not found.changes:
                return

    with contextlib.suppress(KeyboardInterrupt):
        talk(url, follow)


@app.command()
def explain(link: str, url: Urls = DEFAULT_URLS) -> None:
    """Show where a document lives, and why."""
    show(talk(url, lambda client: client.json("GET", f"{link}/explain")))


@app.command()
def load(
    file: Path,
    into: Annotated[str, typer.Option(help="The factory, such as /movies.")],
    ids: Annotated[str, typer.Option("--id", help="FIELD[,FIELD], or row.")] = "row",
    upsert: Annotated[bool, typer.Option(help="A later row of the same id replaces it.")] = False,
    url: Urls = DEFAULT_URLS,
) -> None:
    """Load a JSON array, NDJSON or CSV file."""
    plan = loading.Plan(file, into, ids, upsert=upsert)
    talk(url, lambda client: loading.load(client, plan, out))


@app.command()
def resync(
    link: Annotated[str, typer.Argument(help="A factory or a document; none: everything.")] = "",
    url: Urls = DEFAULT_URLS,
    slots_per_second: Annotated[float, typer.Option(help="Not faster; 0: at full speed.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Have the replicas brought to their owners' logs, and compared; follow it."""
    page = talk(url, lambda client: follow_resync(client, link or None, slots_per_second))
    if as_json:
        show(page)
    else:
        slots, documents = page["slots"], page["documents"]
        out.print(
            f"{page['state']}: {slots['synchronised']} of {slots['total']} slots,"
            f" {documents['compared']} documents compared, {documents['copied']} rows copied"
        )
    if page["state"] != "FINISHED":
        raise typer.Exit(1)


async def follow_resync(
    client: Client, link: str | None, slots_per_second: float = 0.0
) -> dict[str, Any]:
    """Start a resynchronisation and return its page when it is over, or cancelled."""
    request: dict[str, Any] = {"kind": "SynchronizeRequest", "slotsPerSecond": slots_per_second}
    if link:
        request["documentSelfLink"] = link
    page: dict[str, Any] = await client.json("PATCH", "/core/management", request)
    while page["state"] in ("RUNNING", "PAUSED"):
        await asyncio.sleep(0.1)
        page = await client.json("GET", f"/core/management/synch?id={page['id']}")
    return page


Wait = Annotated[bool, typer.Option(help="Follow the change to its end.")]


def _changed(
    urls: list[str], request: Callable[[Client], Awaitable[dict[str, Any]]], *, wait: bool
) -> None:
    """Ask the group for a change, and say what came of it."""

    async def work(client: Client) -> dict[str, Any]:
        return await membership.change(client, await request(client), out if wait else None)

    now = talk(urls, work)
    members = ", ".join(each["id"] for each in now["members"])
    out.print(f"configuration {now['id']} is {now['stage']}: {members}", highlight=False)


@app.command()
def join(
    node: Annotated[str, typer.Argument(help="Address of a node that waits (--standby).")],
    url: Urls = DEFAULT_URLS,
    wait: Wait = True,
) -> None:
    """Take a node into the group."""

    async def request(_: Client) -> dict[str, Any]:
        return {"kind": "AddMemberRequest", "member": await membership.entry_of(node)}

    _changed(url, request, wait=wait)


@app.command()
def replace(
    member: str,
    node: Annotated[str, typer.Argument(help="Address of the new node; none: the same.")] = "",
    url: Urls = DEFAULT_URLS,
    wait: Wait = True,
) -> None:
    """Put a node, or a new disk of the same node, into a member's place."""

    async def request(client: Client) -> dict[str, Any]:
        entry = await membership.entry_of(node or await membership.address_of(client, member))
        return {"kind": "ReplaceMemberRequest", "id": member, "member": entry}

    _changed(url, request, wait=wait)


@app.command()
def remove(
    member: str,
    force: Annotated[bool, typer.Option(help="Also when fewer than three remain.")] = False,
    url: Urls = DEFAULT_URLS,
    wait: Wait = True,
) -> None:
    """Take a member out of the group, dead or alive."""

    async def request(_: Client) -> dict[str, Any]:
        return {"kind": "RemoveMemberRequest", "id": member, "force": force}

    _changed(url, request, wait=wait)


@app.command()
def leave(
    force: Annotated[bool, typer.Option(help="Also when fewer than three remain.")] = False,
    url: Urls = DEFAULT_URLS,
) -> None:
    """Have the node at --url leave the group, and stop it."""

    async def work(node: Client) -> str:
        page = await node.json("GET", "/core/management")
        request = {"kind": "RemoveMemberRequest", "id": page["id"], "force": force}
        await membership.change(node, request, out)
        await node.json("DELETE", "/core/management")
        return str(page["id"])

    out.print(f"{talk(url[:1], work)} has left and stops", highlight=False)


@app.command()
def cancel(url: Urls = DEFAULT_URLS, wait: Wait = True) -> None:
    """Undo the change of the group that is under way."""

    async def request(_: Client) -> dict[str, Any]:
        return {"kind": "CancelChangeRequest"}

    _changed(url, request, wait=wait)


@app.command("force-config")
def force_config(
    data: Annotated[Path, typer.Option(help="Data directory of the survivor, stopped.")],
    yes: Annotated[bool, typer.Option(help="Yes: acknowledged writes may be lost.")] = False,
) -> None:
    """Make a group of this node alone, when a majority is lost for ever."""
    if not yes:
        raise typer.BadParameter("what only the lost nodes held is lost for ever; say --yes")
    try:
        configuration, lost = forcing.force_now(data)
    except DocstoreError as error:
        err.print(f"docstore: {error}", highlight=False, markup=False, soft_wrap=True)
        raise typer.Exit(1) from None
    out.print(
        f"configuration {configuration.id}: {configuration.members[0].id} alone, marked as forced;"
        f" {lost} of {configuration.slots} slots were not on this disk and begin empty",
        highlight=False,
    )


@app.command()
def drain(url: Urls = DEFAULT_URLS) -> None:
    """Have a node finish what it does, and stop."""
    show(talk(url[:1], lambda client: client.json("DELETE", "/core/management")))


@app.command()
def demo(
    keep: Annotated[bool, typer.Option(help="Leave the nodes running.")] = False,
    data: Annotated[Path | None, typer.Option(help="Load this file instead.")] = None,
) -> None:
    """Start three nodes, load real documents, kill an owner, and show that nothing is lost."""
    raise typer.Exit(demonstration.run(out, keep=keep, data=data))


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def spark(context: typer.Context) -> None:
    """Bulk jobs on Apache Spark: import, export, restore, audit, matview, ... (--help)."""
    if importlib.util.find_spec("pyspark") is None:
        err.print("docstore: jobs need PySpark: pip install 'docstore\\[spark]'", highlight=False)
        raise typer.Exit(1)
    asked = [sys.executable, "-m", "docstore.pipeline", *(context.args or ["--help"])]
    raise typer.Exit(subprocess.run(asked, check=False).returncode)  # noqa: S603
