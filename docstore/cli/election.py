"""The commands on elections: run a command as the leader, list and show them, change the leader."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from docstore.cli.completing import names
from docstore.cli.tables import print_table
from docstore.cli.terminal import (
    DEFAULT_URLS,
    AlwaysJson,
    AsJson,
    JsonOfRun,
    Ttl,
    Urls,
    documents_of,
    show,
    talk,
    talk_on,
    tell,
)

if TYPE_CHECKING:
    from docstore.client import Client

PANEL = "Locks, elections, groups"
election = typer.Typer(no_args_is_help=True, help="Elections: one of several processes leads.")
Command = Annotated[list[str], typer.Argument(help="The command to run, after --.")]
Now = Annotated[
    bool, typer.Option("--now", help="End it at once; only if its holder has certainly stopped.")
]
Name = Annotated[
    str, typer.Argument(help="Name of the election.", autocompletion=names("/core/elections"))
]
Json = dict[str, Any]
Candidate = Annotated[
    str, typer.Option(help="Name of this candidate; without it, one is generated.")
]


@election.command("run")
def run_elected(
    name: Name,
    command: Command,
    ttl: Ttl = 10.0,
    candidate: Candidate = "",
    value: Annotated[
        str, typer.Option(help="Value that observers see while it leads: JSON, or a text.")
    ] = "",
    url: Urls = DEFAULT_URLS,
    as_json: JsonOfRun = False,
) -> None:
    """Wait until this process leads, then run a command for as long as it leads.

    The command finds the Fence for its writes in DOCSTORE_FENCE. It gets SIGTERM when the
    leadership ends.
    """

    async def work(client: "Client") -> int:
        from docstore.cli.running import run

        async with client.election(name, candidate=candidate, ttl_s=ttl) as elected:
            await elected.campaign(_json(value))
            return await run(elected, command, as_json=as_json)

    raise typer.Exit(talk(url, work))


@election.command("list")
def list_elections(url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """List the elections with their leaders."""
    list_queues(url, "elections", "leader", as_json=as_json)


@election.command("show")
def show_election(name: Name, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Show the leader and the waiting candidates."""
    show_queue(url, "elections", name, "leads", as_json=as_json)


@election.command("resign")
def resign(name: Name, now: Now = False, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """End the leader's term: its lease expires, and the next candidate then leads.

    The leader stops before, by its own clock. It is out of the queue, as if it had resigned.
    """
    from docstore.cli.turns import end

    before, after = talk(url, lambda client: end(client, "elections", name, now=now))
    _tell_change(before, after, as_json=as_json)


@election.command("transfer")
def transfer(
    name: Name,
    to: Annotated[str, typer.Argument(help="A waiting candidate, as `show` names it.")],
    now: Now = False,
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Make a waiting candidate the leader, once the present leader has stopped by its own clock."""
    from docstore.cli.turns import transfer

    before, after = talk(url, lambda client: transfer(client, name, to, now=now))
    _tell_change(before, after, as_json=as_json)


def _tell_change(before: str, after: str, *, as_json: bool) -> None:
    tell(
        {"before": before, "leader": after},
        f"{before} no longer leads; now {after or 'no candidate'} leads",
        as_json,
    )


def list_queues(url: list[str], scope: str, word: str, *, as_json: bool) -> None:
    """Show all locks or elections. scope: locks or elections. word: of the first candidate."""
    pages = talk(url, lambda client: documents_of(client, f"/core/{scope}"))
    if as_json:
        show(pages)
        return
    rows = [
        (
            page["documentSelfLink"].rpartition("/")[2],
            page["holder"]["candidate"] if page["holder"] else f"- ({page['vacant'] or 'yet'})",
            str(page["token"]),
            str(len(page["queue"])),
        )
        for page in pages
    ]
    print_table(("name", word, "token", "waiting"), rows, empty=f"there are no {scope}")


def show_queue(url: list[str], scope: str, name: str, word: str, *, as_json: bool) -> None:
    """Show one lock or election. word: what the first candidate does."""
    from docstore.cli.turns import read

    document = talk(url, lambda client: read(client, scope, name))
    if as_json:
        show(document)
        return
    vacant = [] if document["holder"] else [(word, f"no candidate ({document['vacant'] or 'yet'})")]
    queue = ((word, document["holder"]), *(("waits", each) for each in document["queue"]))
    rows = [
        (doing, each["candidate"], each["lease"] or "", _text(each["value"]))
        for doing, each in queue
        if each is not None
    ]
    title = f"{name}, token {document['token']}"
    print_table(("", "candidate", "lease", "value"), [*vacant, *rows], title=title)


@election.command("observe")
def observe(
    name: Name,
    since: Annotated[
        str | None, typer.Option(help="Continue after the printed line with this `resume`.")
    ] = None,
    url: Urls = DEFAULT_URLS,
    as_json: AlwaysJson = False,
) -> None:
    """Print the state of an election and each change, one JSON object per line."""
    if since == "":
        raise typer.BadParameter("--since must be the `resume` of a line, or left out; got ''")

    async def follow(client: "Client") -> None:
        from dataclasses import asdict

        async for state in client.election(name).observe(since=since):
            sys.stdout.write(_text(asdict(state)) + "\n")
            sys.stdout.flush()

    talk_on(url, follow)


def _json(text: str) -> Any:
    import orjson

    try:
        return orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return text


def _text(value: Any) -> str:
    import orjson

    return orjson.dumps(value).decode()
