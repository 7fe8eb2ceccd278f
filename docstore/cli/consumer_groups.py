"""The commands on consumer groups and roles: members, their partitions, committed offsets."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from docstore.cli.completing import names, words
from docstore.cli.tables import print_table
from docstore.cli.terminal import (
    DEFAULT_URLS,
    AsJson,
    CommandFailed,
    Urls,
    a_number,
    documents_of,
    path_of,
    show,
    talk,
    talk_on,
    tell,
)
from docstore.model.words import count

if TYPE_CHECKING:
    from docstore.client import Client

PANEL = "Locks, elections, groups"
group = typer.Typer(
    no_args_is_help=True, help="Consumer groups: processes that share the partitions of topics."
)
role = typer.Typer(
    no_args_is_help=True,
    help="Roles: processes share numbered roles, and each role has one leader.",
)
GROUPS, ROLES = "/core/groups", "/core/roles"
Group = Annotated[str, typer.Argument(help="Name of the group.", autocompletion=names(GROUPS))]
Role = Annotated[str, typer.Argument(help="Name of the set of roles.", autocompletion=names(ROLES))]
Json = dict[str, Any]
PROGRESS = ("offset", "end", "lag")
"""Members of an offset that are shown."""


def _list(url: list[str], factory: str, *, as_json: bool) -> None:
    pages = talk(url, lambda client: documents_of(client, factory))
    if as_json:
        show(pages)
        return
    rows = [
        (page["documentSelfLink"].rpartition("/")[2], page["state"], str(len(page["members"])),
         str(len(page["target"])), str(page["generation"]), page["settings"]["mode"])
        for page in pages
    ]  # fmt: skip
    columns = ("name", "state", "members", "partitions", "generation", "mode")
    kind = factory.rpartition("/")[2]
    empty = f"there are no {kind}; `docstore {kind[:-1]} create` makes one"
    print_table(columns, rows, empty=empty)


def _describe(page: Json, offsets: dict[str, Json]) -> None:
    """Print the partitions of a group, with the member and committed offset of each."""
    live = page["live"] or {}
    rows = []
    hosts = {name: host for name, _, host, *_ in page["members"]}
    for each in page["partitionList"]:
        member, target = each["member"], each["target"]
        read = offsets.get(each["partition"])
        rows.append((
            each["partition"], member or "-", hosts.get(member, "-"), str(each["token"] or "-"),
            "" if target == member else (target or "-"),
            *([_figure(read[name]) for name in PROGRESS] if read else []),
        ))  # fmt: skip
    columns = ("partition", "member", "host", "token", "moves to", *(PROGRESS * bool(offsets)))
    print_table(columns, rows)
    lags = [each["lag"] for each in offsets.values()]
    known = [lag for lag in lags if lag is not None]
    least = "at least " * (len(known) < len(lags))
    lag = f", lag {least}{count(sum(known), 'record')}" if lags else ""
    typer.echo(f"{page['state']}, generation {page['generation']}, {len(hosts)} members{lag}")
    for member, figures in live.items():
        moving = ", ".join(f"{each} for {ms} ms" for each, ms in figures["revoking"].items())
        typer.echo(
            f"{member}: heard {figures['heardMs']} ms ago"
            + (f"; gives back {moving}" if moving else "")
            + ("; fenced" if figures["fenced"] else "")
        )
    if page["stale"]:
        typer.echo("its coordinator did not answer: this is the last decided state")


def _figure(value: int | None) -> str:
    return "-" if value is None or value < 0 else str(value)


Mode = Annotated[
    str,
    typer.Option(
        help="exclusive, or nonExclusive: two members may lead for a while, not none.",
        autocompletion=words("exclusive", "nonExclusive"),
    ),
]
Session = Annotated[
    float | None,
    typer.Option(
        min=0.5, max=3600, callback=a_number,
        help="Seconds of silence after which a member is succeeded; else 6.",
    ),
]  # fmt: skip


def _create(
    url: list[str], factory: str, asked: Json, session: float | None, *, as_json: bool
) -> None:
    if session is not None:
        asked = asked | {"sessionMs": round(session * 1000)}
    page = talk(url, lambda client: client.json("POST", factory, asked))
    tell(
        page,
        f"{asked['name']}: {count(len(page['target']), 'partition')}, {page['state']}",
        as_json,
    )


@group.command("create")
def create_group(
    name: Annotated[str, typer.Argument(help="Name of the new group.")],
    topics: Annotated[
        list[str],
        typer.Argument(
            help="The topics that its members share.", autocompletion=names("/core/streams")
        ),
    ],
    session: Session = None,
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Create a consumer group; a member also creates it if it does not exist."""
    _create(url, GROUPS, {"name": name, "topics": topics}, session, as_json=as_json)


@group.command("list")
def list_groups(url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """List the consumer groups with their state."""
    _list(url, GROUPS, as_json=as_json)


@group.command("describe")
def describe_group(name: Group, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Show the partitions of a group: the member that reads each, its offset, and the lag."""

    async def read(client: "Client") -> Json:
        page: Json = await client.json("GET", path_of(GROUPS, name))
        found = await client.json("GET", f"{path_of(GROUPS, name)}/offsets")
        return page | {"offsets": found["offsets"]}

    page = talk(url, read)
    if as_json:
        show(page)
    else:
        named = {f"{each['topic']}/{each['partition']}": each for each in page["offsets"]}
        _describe(page, named)


@group.command("reset")
def reset(
    name: Group,
    topic: Annotated[
        str,
        typer.Argument(help="Its topic; else all topics.", autocompletion=names("/core/streams")),
    ] = "",
    to: Annotated[
        str,
        typer.Option(
            help="Where to continue: beginning, end, end-N, an offset, a time with its zone, +N or"
            " -N from the present offset, or none.",
            autocompletion=words("beginning", "end", "none"),
        ),
    ] = "",
    partition: Annotated[
        int | None, typer.Option("-p", "--partition", help="Only this one; else all.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print the offsets that it would set.")
    ] = False,
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Set the committed offsets of a group, which must have no members."""
    if not to:
        raise typer.BadParameter("--to must say where to continue, such as --to beginning")
    if partition is not None and not topic:
        raise typer.BadParameter("--partition must come with a topic")
    body: Json = {"kind": "ResetRequest", "to": to, "dryRun": dry_run}
    body |= {"topic": topic} if topic else {}
    body |= {} if partition is None else {"partition": partition}
    path = f"{path_of(GROUPS, name)}/offsets"
    page = talk(url, lambda client: client.json("PATCH", path, body))
    failed = [each for each in page["offsets"] if each.get("status", 200) != 200]
    if as_json:
        show(page)
    else:
        rows = [
            (f"{each['topic']}/{each['partition']}", _figure(each["before"]),
             _figure(each["offset"]), each.get("detail", ""))
            for each in page["offsets"]
        ]  # fmt: skip
        print_table(
            ("partition", "before", "offset", *(["error"] * bool(failed))),
            [row if failed else row[:3] for row in rows],
        )
    if failed:
        raise CommandFailed(f"{count(len(failed), 'offset')} may not be set: run it again")


@group.command("delete")
def delete(name: Group, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Delete a group and its offsets; the group must have no members."""
    page = talk(url, lambda client: client.json("DELETE", path_of(GROUPS, name)))
    tell(page, f"{name} is deleted", as_json)


@role.command("create")
def create_role(
    name: Annotated[str, typer.Argument(help="Name of the new set of roles.")],
    partitions: Annotated[
        int, typer.Option("-p", "--partitions", help="Parts that are assigned to members.")
    ] = 1,
    mode: Mode = "exclusive",
    session: Session = None,
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Create a set of roles; a member also creates it if it does not exist."""
    asked = {"name": name, "partitions": partitions, "mode": mode}
    _create(url, ROLES, asked, session, as_json=as_json)


@role.command("list")
def list_roles(url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """List the sets of roles with their state."""
    _list(url, ROLES, as_json=as_json)


@role.command("describe")
def describe_role(name: Role, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Show the partitions of a set of roles, and the member that leads each."""
    page = talk(url, lambda client: client.json("GET", path_of(ROLES, name)))
    if as_json:
        show(page)
    else:
        _describe(page, {})


@role.command("watch")
def watch(name: Role, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Print the leader of each partition, and each change, until interrupted."""
    from datetime import UTC, datetime, timedelta

    async def follow(client: "Client") -> None:
        page = await client.json("GET", path_of(ROLES, name))
        before = timedelta(microseconds=page["documentUpdateTimeMicros"] - 1)
        since = (datetime(1970, 1, 1, tzinfo=UTC) + before).isoformat()
        async for stretch in client.changes(path_of(ROLES, name), since=since):
            for change in stretch.changes:
                _print(change, as_json=as_json)

    talk_on(url, follow)


def _print(change: Json, *, as_json: bool) -> None:
    import sys

    import orjson

    document = change.get("body")
    if as_json or not document:
        sys.stdout.write(orjson.dumps(change).decode() + "\n")
    else:
        members = [name for name, *_ in document["members"]]
        held = [members[each[0]] if each else "-" for each in document["tenure"]]
        shown = " ".join(f"{number}:{member[:8]}" for number, member in enumerate(held))
        sys.stdout.write(f"{document['generation']} {document['state']} {shown}\n")
    sys.stdout.flush()
