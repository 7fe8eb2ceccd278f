"""The commands on subscriptions: have a receiver told what changes at a path, and end that."""

from pathlib import Path
from typing import Annotated, Any

import typer

from docstore.cli.terminal import DEFAULT_URLS, AsJson, Urls, console, failed, show, talk

subscription = typer.Typer(
    no_args_is_help=True, help="Subscriptions: changes of a path, told to a URL (webhooks)."
)
SUBSCRIPTIONS = "/core/subscriptions"
Json = dict[str, Any]
Id = Annotated[str, typer.Argument(metavar="ID", help="Or the link.")]


@subscription.command("create")
def create(
    path: Annotated[str, typer.Argument(help="A factory, or a document.")],
    callback: Annotated[str, typer.Argument(metavar="URL", help="Of the receiver.")],
    where: Annotated[str, typer.Option(help="Only what fulfils a condition.")] = "",
    since: Annotated[
        str | None, typer.Option(help="A token, a time, earliest; else from now on.")
    ] = None,
    replay: Annotated[bool, typer.Option("--replay", help="First the documents as they are.")] = (
        False
    ),
    secret_file: Annotated[
        Path | None, typer.Option(help="Holds the secret (whsec_...); else one is made and shown.")
    ] = None,
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Have a receiver told of changes, once it has answered a challenge."""
    asked: Json = {"callback": callback, "where": where, "replayState": replay}
    if since == "":
        raise typer.BadParameter("--since is empty: give a position, or leave it out")
    if since is not None:
        asked["since"] = since
    if secret_file is not None:
        try:
            asked["secret"] = secret_file.read_text().strip()
        except OSError as error:
            raise failed(error) from None
    page = talk(url, lambda client: client.json("POST", f"{_quoted(path)}/subscriptions", asked))
    if as_json:
        show(page)
        return
    typer.echo(_id_of(page))
    if "secret" in page:
        typer.echo(page["secret"])
        typer.echo("the second line is its secret, which is not shown again", err=True)


@subscription.command("list")
def list_subscriptions(
    path: Annotated[str, typer.Argument(help="Of this path; none: all.")] = "",
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """List subscriptions, and how they stand."""
    at = f"{path}/subscriptions" if path else SUBSCRIPTIONS
    pages: list[Json] = talk(url, lambda client: client.ls(at, expand=True))
    if as_json:
        show(pages)
        return
    from rich.table import Table

    table = Table("subscription", "path", "callback", "state", "delivered", "why")
    for page in pages:
        table.add_row(
            _id_of(page), page["path"], page["callback"], page["state"],
            f"{page['delivered']:,}", page["why"],
        )  # fmt: skip
    console(is_wide=True).print(table)


@subscription.command("pause")
def pause(name: Id, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Deliver nothing until it is resumed."""
    _change(name, url, "PATCH", {"kind": "PauseRequest"}, as_json=as_json)


@subscription.command("resume")
def resume(name: Id, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Go on where a pause began."""
    _change(name, url, "PATCH", {"kind": "ResumeRequest"}, as_json=as_json)


@subscription.command("delete")
def delete(name: Id, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """End one."""
    _change(name, url, "DELETE", None, as_json=as_json)


def _change(name: str, url: list[str], method: str, asked: Json | None, *, as_json: bool) -> None:
    link = f"{SUBSCRIPTIONS}/{_quoted(name.rpartition('/')[2])}"
    page: Json = talk(url, lambda client: client.json(method, link, asked))
    if as_json:
        show(page)
    else:
        typer.echo(f"{_id_of(page)}: {'deleted' if method == 'DELETE' else page['state']}")


def _id_of(page: Json) -> str:
    return str(page["documentSelfLink"]).rpartition("/")[2]


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(path)
