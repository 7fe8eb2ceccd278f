"""The commands on access: what a user may do, and what a new access file would change."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from docstore.cli.completing import links, words
from docstore.cli.terminal import (
    DEFAULT_URLS,
    FAILED,
    AsJson,
    Urls,
    failed,
    path_of,
    show,
    talk,
    tell,
)

if TYPE_CHECKING:
    from docstore.client import Client

access = typer.Typer(
    no_args_is_help=True, help="The access file: users and their permissions, and what they allow."
)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
Json = dict[str, Any]


@access.command("check", no_args_is_help=True)
def check(
    user: Annotated[str, typer.Argument(help="A user of the access file.")] = "",
    method: Annotated[
        str, typer.Argument(help="GET, POST, PUT, PATCH or DELETE.", autocompletion=words(*METHODS))
    ] = "",
    path: Annotated[
        str, typer.Argument(help="A document, a factory or a page.", autocompletion=links)
    ] = "",
    file: Annotated[
        Path | None,
        typer.Option(help="Check this access file, without a node, instead of that of the nodes."),
    ] = None,
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Say whether USER may send METHOD to PATH; exit code 1 if not.

    With --file alone, say whether a node would accept a new access file, and print its grants.
    """
    if bool(user) != bool(path) or (file is None and not user):
        got = " ".join(filter(None, (user, method))) or "neither"
        raise typer.BadParameter(f"give USER METHOD PATH, or --file FILE, or both; got {got}")
    from docstore.cli import access_check

    try:
        rules = None if file is None else access_check.rules_in(file)
    except access_check.UNUSABLE as error:
        raise failed(error) from None
    if rules is not None and not user:
        _tell_rules(access_check.page_of(rules), as_json=as_json)
        return
    if rules is None:
        grants = talk(url, lambda client: _grants(client, user))
    else:
        users = access_check.page_of(rules)["users"]
        if user not in users:
            raise typer.BadParameter(f"{user!r} is no user of {file}, but {', '.join(users)}")
        grants = users[user]
    try:
        page = access_check.decide(user, grants, method.upper(), path)
    except access_check.UNUSABLE as error:
        raise failed(error) from None
    tell(page, page["why"], as_json)
    raise typer.Exit(0 if page["allowed"] else FAILED)


async def _grants(client: "Client", user: str) -> Json:
    page = await client.json("GET", path_of("/core/access/users", user))
    grants: Json = page["grants"]
    return grants


def _tell_rules(page: Json, *, as_json: bool) -> None:
    if as_json:
        show({name: page[name] for name in ("users", "keys", "administrators")})
        return
    for name, grants in page["users"].items():
        typer.echo(f"{name}: {', '.join(f'{level} {path}' for path, level in grants.items())}")
    for name, roles in page["roles"].items():
        typer.echo(f"keys.{name}: roles {', '.join(roles)}")
