"""The commands on one node: show its recent events, and set its log level."""

import sys
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from docstore.cli.completing import members, words
from docstore.cli.terminal import DEFAULT_URLS, AsJson, CommandFailed, Urls, show, talk, tell

if TYPE_CHECKING:
    from docstore.client import Client

PANEL = "Nodes"
PATH = "/core/management/trace"
FOLLOW_S = 0.5
app = typer.Typer()
NodeOrUrl = Annotated[
    str,
    typer.Argument(
        metavar="NODE",
        help="Id or URL of a node; without it, that of --url.",
        autocompletion=members,
    ),
]


@app.command(rich_help_panel=PANEL)
def trace(
    node: NodeOrUrl = "",
    slot: Annotated[int | None, typer.Option(help="Only events of this slot.")] = None,
    link: Annotated[str, typer.Option(help="Only events of this document.")] = "",
    partition: Annotated[
        str, typer.Option(help="Only events of this partition, TOPIC/NUMBER.")
    ] = "",
    limit: Annotated[int, typer.Option(help="Number of steps, the last ones.")] = 100,
    follow: Annotated[bool, typer.Option(help="Continue with new steps until stopped.")] = False,
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Show the recent events of a node's state machines, and the effects of each."""
    asked = {"slot": slot, "link": link, "partition": partition, "limit": limit}
    query = {name: value for name, value in asked.items() if value not in (None, "")}
    at = talk(url, lambda client: _url_of(client, node)) if node else url[0]
    if follow:
        talk([at], lambda client: _follow(client, query, as_json=as_json))
        return
    page = talk([at], lambda client: client.json("GET", f"{PATH}?{urlencode(query)}"))
    if as_json:
        show(page)
        return
    for step in page["steps"]:
        typer.echo(line(step))


@app.command("log-level", rich_help_panel=PANEL)
def log_level(
    level: Annotated[
        str,
        typer.Argument(
            help="Lowest level: debug, info, warning or error.",
            autocompletion=words("debug", "info", "warning", "error"),
        ),
    ],
    node: NodeOrUrl = "",
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Set the log level of a node until it restarts."""
    asked = {"kind": "LogLevelRequest", "level": level}
    at = talk(url, lambda client: _url_of(client, node)) if node else url[0]
    page = talk([at], lambda client: client.json("PATCH", "/core/management", asked))
    tell(page, f"{page['id']} logs {page['level']} and above", as_json)


def line(step: dict[str, Any]) -> str:
    """Return a step as a line; a line before it tells how many routine steps were left out."""
    effects = "; ".join(step["effects"])
    said = f"{step['time'][11:26]} {step['machine']:9} {step['event']}"
    said += f" => {effects}" if effects else ""
    return f"... {step['leftOut']} left out\n{said}" if step["leftOut"] else said


async def _url_of(client: "Client", node: str) -> str:
    if "://" in node:
        return node
    group = await client.json("GET", "/core/node-groups/default")
    found = [each["address"] for each in group["members"] if each["id"] == node]
    if not found or not found[0]:
        raise CommandFailed(f"{node} is no member with a known address; give the node's URL")
    return str(found[0])


async def _follow(client: "Client", query: dict[str, Any], *, as_json: bool) -> None:
    import asyncio

    import orjson

    after = 0
    while True:
        page = await client.json("GET", f"{PATH}?{urlencode(query | {'after': after})}")
        for step in page["steps"]:
            after = step["number"]
            sys.stdout.write((orjson.dumps(step).decode() if as_json else line(step)) + "\n")
        sys.stdout.flush()
        await asyncio.sleep(FOLLOW_S)
