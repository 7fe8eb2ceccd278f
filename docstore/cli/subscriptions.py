"""The commands on subscriptions: deliver the changes of a path to a URL."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from docstore.cli.completing import links, names
from docstore.cli.tables import print_table
from docstore.cli.terminal import DEFAULT_URLS, AsJson, Urls, documents_of, failed, show, talk, tell

if TYPE_CHECKING:
    pass

subscription = typer.Typer(
    no_args_is_help=True, help="Subscriptions: deliver the changes of a path to a URL (webhooks)."
)
SUBSCRIPTIONS = "/core/subscriptions"
Json = dict[str, Any]
Id = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="Id or link of the subscription.", autocompletion=names(SUBSCRIPTIONS)
    ),
]


@subscription.command("create")
def create(
    path: Annotated[str, typer.Argument(help="A factory or document.", autocompletion=links)],
    callback: Annotated[str, typer.Argument(metavar="URL", help="URL of the receiver.")],
    where: Annotated[
        str,
        typer.Option(help="Deliver only changes of documents that match, or no longer match."),
    ] = "",
    before: Annotated[
        bool, typer.Option("--before", help="Add the body of each version before.")
    ] = False,
    since: Annotated[
        str | None, typer.Option(help="Start: a token, a time, or earliest; else now.")
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Deliver the existing documents first.")
    ] = False,
    secret_file: Annotated[
        Path | None,
        typer.Option(help="File with the secret (whsec_...); else one is generated and printed."),
    ] = None,
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Deliver changes to a receiver, which must answer a challenge first."""
    asked: Json = {"callback": callback, "where": where, "replayState": replay}
    if before:
        asked["before"] = True
    if since == "":
        raise typer.BadParameter("--since must be a position, or left out; got ''")
    if since is not None:
        asked["since"] = since
    if secret_file is not None:
        try:
            asked["secret"] = secret_file.read_text().strip()
        except OSError as error:
            raise failed(error) from None
    page = talk(url, lambda client: client.json("POST", f"{quote(path)}/subscriptions", asked))
    if as_json:
        show(page)
        return
    typer.echo(_id_of(page))
    if "secret" in page:
        typer.echo(page["secret"])
        typer.echo("the second line is the secret; it cannot be shown again", err=True)


@subscription.command("list")
def list_subscriptions(
    path: Annotated[str, typer.Argument(help="Only those of this path; else all.")] = "",
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """List subscriptions with their state."""
    at = f"{path}/subscriptions" if path else SUBSCRIPTIONS
    pages = talk(url, lambda client: documents_of(client, at))
    if as_json:
        show(pages)
        return
    rows = [
        (_id_of(page), page["path"], page["callback"], page["state"], f"{page['delivered']:,}",
         page["why"])
        for page in pages
    ]  # fmt: skip
    columns = ("subscription", "path", "callback", "state", "delivered", "why")
    print_table(columns, rows, empty="there are no subscriptions")


@subscription.command("pause")
def pause(name: Id, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Pause a subscription: deliver nothing until it is resumed."""
    _change(name, url, "PATCH", {"kind": "PauseRequest"}, as_json=as_json)


@subscription.command("resume")
def resume(name: Id, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Resume a subscription where its pause began."""
    _change(name, url, "PATCH", {"kind": "ResumeRequest"}, as_json=as_json)


@subscription.command("delete")
def delete(name: Id, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Delete a subscription."""
    _change(name, url, "DELETE", None, as_json=as_json)


def _change(name: str, url: list[str], method: str, asked: Json | None, *, as_json: bool) -> None:
    link = f"{SUBSCRIPTIONS}/{quote(name.rpartition('/')[2])}"
    page: Json = talk(url, lambda client: client.json(method, link, asked))
    tell(page, f"{_id_of(page)}: {'deleted' if method == 'DELETE' else page['state']}", as_json)


def _id_of(page: Json) -> str:
    return str(page["documentSelfLink"]).rpartition("/")[2]
