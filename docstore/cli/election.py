"""The commands on elections and locks: run a command as their holder, and show them."""

import contextlib
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from docstore.cli.terminal import DEFAULT_URLS, AsJson, Ttl, Urls, console, show, talk

if TYPE_CHECKING:
    from docstore.client import Client

PANEL = "Leases, locks, elections"
app = typer.Typer()
election = typer.Typer(no_args_is_help=True, help="Elections: one of several processes leads.")
command = partial(app.command, rich_help_panel=PANEL)
Command = Annotated[list[str], typer.Argument(help="The command to run, after --.")]
Candidate = Annotated[
    str, typer.Option(help="Name of this candidate; without it, one is generated.")
]


@command()
def lock(name: str, command: Command, ttl: Ttl = 10.0, url: Urls = DEFAULT_URLS) -> None:
    """Wait for a lock, run a command while holding it, then release it."""

    async def work(client: "Client") -> int:
        from docstore.cli.running import run
        from docstore.client import Lost

        code = None
        try:
            async with client.lock(name, ttl_s=ttl) as held:
                code = await run(held, command)
        except Lost:
            if code is None:
                raise
        return code  # The command's own exit code counts, even if the lock was lost.

    raise typer.Exit(talk(url, work))


@election.command("run")
def run_elected(
    name: str,
    command: Command,
    ttl: Ttl = 10.0,
    candidate: Candidate = "",
    value: Annotated[
        str, typer.Option(help="Value that observers see while it leads: JSON, or a text.")
    ] = "",
    url: Urls = DEFAULT_URLS,
) -> None:
    """Wait until this process leads, then run a command for as long as it leads.

    The command finds the Fence for its writes in DOCSTORE_FENCE. It gets SIGTERM when the
    leadership ends.
    """

    async def work(client: "Client") -> int:
        from docstore.cli.running import run

        async with client.election(name, candidate=candidate, ttl_s=ttl) as elected:
            await elected.campaign(_json(value))
            return await run(elected, command)

    raise typer.Exit(talk(url, work))


@election.command("show")
def show_election(name: str, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Show the leader and the waiting candidates."""
    document = talk(url, lambda client: client.get(f"/core/elections/{name}")).value
    if as_json:
        show(document)
        return
    from rich.table import Table

    table = Table("", "candidate", "lease", "value", title=f"{name}, token {document['token']}")
    if document["holder"] is None:
        table.add_row("leads", f"no candidate ({document['vacant'] or 'yet'})", "", "")
    for word, each in (("leads", document["holder"]), *(("waits", e) for e in document["queue"])):
        if each is not None:
            table.add_row(word, each["candidate"], each["lease"], _text(each["value"]))
    console(is_wide=True).print(table)


@election.command("observe")
def observe(
    name: str,
    since: Annotated[
        str | None, typer.Option(help="Continue after the printed line with this `resume`.")
    ] = None,
    url: Urls = DEFAULT_URLS,
) -> None:
    """Print the state of an election and each change, one JSON object per line."""
    if since == "":
        raise typer.BadParameter("--since must be the `resume` of a line, or left out; got ''")

    async def follow(client: "Client") -> None:
        from dataclasses import asdict

        async for state in client.election(name).observe(since=since):
            sys.stdout.write(_text(asdict(state)) + "\n")
            sys.stdout.flush()

    with contextlib.suppress(KeyboardInterrupt):
        talk(url, follow)


def _json(text: str) -> Any:
    import orjson

    try:
        return orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return text


def _text(value: Any) -> str:
    import orjson

    return orjson.dumps(value).decode()
