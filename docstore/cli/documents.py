"""The commands on documents: read, write, list, history, watch."""

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import quote, unquote

import typer

from docstore.cli.completing import factories, links, orders, words
from docstore.cli.tables import print_table, tell_empty, tell_waiting
from docstore.cli.terminal import (
    DEFAULT_URLS,
    AlwaysJson,
    AsJson,
    Urls,
    show,
    talk,
    talk_on,
    tell_reading,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from docstore.client import Client

T = TypeVar("T")
app = typer.Typer()
command = partial(app.command, rich_help_panel="Documents")
FACTORIES = "/core/factories"
NO_FACTORIES = (
    'no factory is declared; declare one with: docstore post /core/factories \'{"path": "/films"}\''
)
Link = Annotated[
    str, typer.Argument(help="Path of a document, such as /films/heat.", autocompletion=links)
]
Factory = Annotated[
    str,
    typer.Argument(
        help="A factory, the path of its documents, such as /films.", autocompletion=factories
    ),
]
Body = Annotated[str, typer.Argument(help="JSON; - reads standard input.")]


def _entity_tag(text: str) -> str:
    """Return an entity tag with the quotes of HTTP, which are awkward to type in a shell."""
    if text == ANY_VERSION:
        return ""
    if not text:
        raise typer.BadParameter("must be an entity tag, such as 3.7; got ''")
    if not text.isprintable():
        raise typer.BadParameter("the entity tag has characters that are not printable")
    digits = text.replace(".", "", 1)
    return f'"{text}"' if digits.isascii() and digits.isdecimal() else text


ANY_VERSION = "any"
IfMatch = Annotated[
    str,
    typer.Option(
        callback=_entity_tag,
        help="Write only if the entity tag is still this one: documentEpoch.documentVersion, such"
        " as 3.7; any: always. (At levels 1 and 2: documentUpdateTimeMicros.documentVersion.)",
    ),
]


def _value(text: str) -> dict[str, Any]:
    import orjson

    if text == "-":
        tell_reading("a JSON object")
    raw = sys.stdin.buffer.read() if text == "-" else text
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise typer.BadParameter(f"the document is not JSON: {error}") from None
    if not isinstance(value, dict):
        got = type(value).__name__
        raise typer.BadParameter(f"the document must be a JSON object, such as {{}}; got {got}")
    return value


@command()
def get(
    link: Link,
    version: Annotated[int | None, typer.Option(help="A past version.")] = None,
    at: Annotated[str, typer.Option(help="A past time, RFC 3339 or microseconds.")] = "",
    url: Urls = DEFAULT_URLS,
    as_json: AlwaysJson = False,
) -> None:
    """Show a document, or a past version of it."""
    show(talk(url, lambda client: client.get(link, version=version, at=at)).value)


@command()
def put(
    link: Link,
    value: Body = "-",
    if_match: IfMatch = ANY_VERSION,
    url: Urls = DEFAULT_URLS,
    as_json: AlwaysJson = False,
) -> None:
    """Replace or create a document with JSON (- reads standard input)."""
    state = _value(value)
    show(talk(url, lambda client: client.put(link, state, if_match=if_match)).value)


@command()
def patch(
    link: Link,
    value: Body = "-",
    if_match: IfMatch = ANY_VERSION,
    url: Urls = DEFAULT_URLS,
    as_json: AlwaysJson = False,
) -> None:
    """Change some fields of a document."""
    change = _value(value)
    show(talk(url, lambda client: client.patch(link, change, if_match=if_match)).value)


@command()
def post(
    factory: Factory, value: Body = "-", url: Urls = DEFAULT_URLS, as_json: AlwaysJson = False
) -> None:
    """Create a document with a generated id."""
    state = _value(value)
    show(talk(url, lambda client: client.post(factory, state)).value)


@command()
def delete(
    link: Link,
    if_match: IfMatch = ANY_VERSION,
    url: Urls = DEFAULT_URLS,
    as_json: AlwaysJson = False,
) -> None:
    """Delete a document; its history is kept."""
    show(talk(url, lambda client: client.delete(link, if_match=if_match)).value)


@command()
def ls(
    factory: Annotated[
        str,
        typer.Argument(
            help="A factory; without it, list the declared factories.", autocompletion=factories
        ),
    ] = FACTORIES,
    filter: Annotated[  # noqa: A002 - as in the URL
        str, typer.Option(help="""A condition, such as "rating gt 7 and title eq 'The*'".""")
    ] = "",
    order_by: Annotated[
        str,
        typer.Option(help='Members to sort by, such as "year desc, title".', autocompletion=orders),
    ] = "",
    select: Annotated[
        str, typer.Option(help="Members to show with the link, separated by commas.")
    ] = "",
    limit: Annotated[int | None, typer.Option(help="Most documents to list.", min=1)] = None,
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """List the documents of a factory, or those that match a condition."""
    empty = NO_FACTORIES
    if factory != FACTORIES:
        matching = " that match the filter" if filter else ""
        empty = f"there are no documents in {factory}{matching}"
    if not (filter or order_by or select or limit):
        _list(talk(url, lambda client: _all(client.links(factory))), empty, as_json=as_json)
        return

    async def found(client: "Client") -> list[dict[str, Any]]:
        asked = client.query(
            factory, filter=filter, order_by=order_by, select=select or "documentSelfLink",
            limit=limit,
        )  # fmt: skip
        return [each.value async for each in asked]

    documents = talk(url, found)
    if select and not as_json:
        sys.stdout.writelines(_line(each) for each in documents)
        if not documents:
            tell_empty(empty)
    else:
        links = [each["documentSelfLink"] for each in documents]
        _list(documents if select else links, empty, as_json=as_json)


async def _all(found: "AsyncIterator[T]") -> list[T]:
    return [each async for each in found]


def _list(found: list[Any], empty: str, *, as_json: bool) -> None:
    if as_json:
        show(found)
    elif not found:
        tell_empty(empty)
    else:
        sys.stdout.write("".join(f"{link}\n" for link in found))


@command()
def dump(factory: Factory, url: Urls = DEFAULT_URLS, as_json: AlwaysJson = False) -> None:
    """Print the documents of a factory, one JSON object per line."""
    documents = talk(url, lambda client: _all(client.ls(factory)))
    for document in documents:
        sys.stdout.write(_line(document.value))
    if not documents:
        tell_empty(f"there are no documents in {factory}")


@command()
def history(link: Link, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Show all versions of a document, newest first."""
    versions = talk(url, lambda client: client.history(link))
    if as_json:
        show(versions)
        return
    makers = [_name_of(each.get("documentAuthPrincipalLink", "")) for each in versions]
    of_makers = ["made by"] if any(makers) else []
    rows = []
    for each, maker in zip(versions, makers, strict=True):
        state = {key: value for key, value in each.items() if not key.startswith("document")}
        rows.append((
            str(each["documentVersion"]), str(each["documentEpoch"]), each["documentOwner"],
            each["documentUpdateAction"], *([maker] if of_makers else []),
            _line(state).rstrip()[:100],
        ))  # fmt: skip
    columns = ("version", "epoch", "owner", "action", *of_makers, "state")
    print_table(columns, rows, title=link)


def _name_of(link: str) -> str:
    """Return the name of the user that made a version."""
    return unquote(link.rpartition("/")[2])


@command()
def watch(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Documents or factories; without them, everything.", autocompletion=links
        ),
    ] = None,
    since: Annotated[
        str,
        typer.Option(
            help="Start: latest, earliest, a time with its zone, a snapshot, or a token.",
            autocompletion=words("latest", "earliest"),
        ),
    ] = "latest",
    where: Annotated[
        str,
        typer.Option(
            help='Print documents that match, such as "rating > 7": when they begin to match'
            " (event: enter), change (update), and no longer match (leave)."
        ),
    ] = "",
    before: Annotated[
        bool, typer.Option("--before", help="Add the body of each version before.")
    ] = False,
    once: Annotated[bool, typer.Option(help="Stop after the changes that exist already.")] = False,
    url: Urls = DEFAULT_URLS,
    as_json: AlwaysJson = False,
) -> None:
    """Print changes as they happen, one JSON object per line."""

    async def follow(client: "Client") -> None:
        async for found in client.changes(
            paths or "", since=since, where=where, before=before, wait_s=1 if once else 20
        ):
            sys.stdout.writelines(_line(change) for change in found.changes)
            sys.stdout.flush()
            if once and not found.changes:
                return

    if not once:
        tell_waiting(f"changes of {' and '.join(paths or ['all documents'])}")
    talk_on(url, follow)


@command()
def explain(link: Link, url: Urls = DEFAULT_URLS, as_json: AlwaysJson = False) -> None:
    """Show the slot, owner and replicas of a document, and how they were chosen."""
    show(talk(url, lambda client: client.json("GET", f"{quote(link)}/explain")))


def _line(value: Any) -> str:
    import orjson

    return orjson.dumps(value).decode() + "\n"
