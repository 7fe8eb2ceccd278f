"""The commands on topics and their partitions."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from docstore.cli.completing import names, words
from docstore.cli.tables import print_table
from docstore.cli.terminal import (
    DEFAULT_URLS,
    AlwaysJson,
    AsJson,
    CommandFailed,
    Urls,
    documents_of,
    failed,
    path_of,
    read_all,
    show,
    talk,
    tell,
)
from docstore.model.words import count

if TYPE_CHECKING:
    from docstore.client import Client

PANEL = "Streams"
topic = typer.Typer(no_args_is_help=True, help="Topics: streams of records.")
partition = typer.Typer(no_args_is_help=True, help="Partitions of topics.")
STREAMS = "/core/streams"
NO_TOPICS = "there are no topics; `docstore topic create NAME` makes one"
Topic = Annotated[str, typer.Argument(help="Name of the topic.", autocompletion=names(STREAMS))]
Json = dict[str, Any]

MinInSync = Annotated[
    int | None, typer.Option(help="Replicas that must have a record before it is committed.")
]
RetentionMs = Annotated[
    str,
    typer.Option("--retention", help="Age at which records expire, such as 7d or 12h; 0s: never."),
]
RetentionBytes = Annotated[
    str, typer.Option(help="Size limit of a partition, such as 10g; 0: none.")
]
Cleanup = Annotated[
    str,
    typer.Option(help="How records are removed: delete (by age), compact (by key), or both."),
]
Compression = Annotated[
    str,
    typer.Option(
        help="How leaders compress batches: none, or zstd.",
        autocompletion=words("none", "zstd"),
    ),
]

_AMOUNT = re.compile(r"([0-9]+)([a-zA-Z]*)\Z")
_MILLISECONDS = {
    "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000
}  # fmt: skip
_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def _amount(text: str, units: dict[str, int], example: str) -> int:
    found = _AMOUNT.match(text)
    unit = units.get(found[2].lower().removesuffix("ib")) if found else None
    if found is None or unit is None:
        raise typer.BadParameter(
            f"must be a whole number with a unit, such as {example}; got {text}"
        )
    return int(found[1]) * unit


def _retention(age: str, size: str) -> dict[str, int]:
    kept: dict[str, int] = {}
    if age:
        kept["ms"] = _amount(age, _MILLISECONDS, "7d, 12h or 30m")
    if size:
        kept["bytes"] = _amount(size, _BYTES, "500m or 10g")
    return kept


@topic.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Name of the new topic.")],
    partitions: Annotated[
        int, typer.Option("-p", "--partitions", help="Number of partitions.")
    ] = 1,
    replicas: Annotated[
        int | None, typer.Option("-r", "--replicas", help="Replicas of each partition; else 3.")
    ] = None,
    min_in_sync: MinInSync = None,
    retention: RetentionMs = "7d",
    retention_bytes: RetentionBytes = "0",
    compression: Compression = "",
    cleanup: Cleanup = "",
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Create a topic, and wait until its partitions are ready."""
    asked: Json = {
        "name": name,
        "partitions": partitions,
        "retention": _retention(retention, retention_bytes),
    }
    if compression:
        asked["compression"] = compression
    if cleanup:
        asked["cleanup"] = cleanup
    if replicas is not None:
        asked["replicationFactor"] = replicas
    if min_in_sync is not None:
        asked["minInSync"] = min_in_sync
    page = talk(url, lambda client: client.json("POST", STREAMS, asked))
    each = count(page["replicationFactor"], "replica")
    tell(
        page,
        f"{name}: {count(page['partitions'], 'partition')}, {each} each, {page['resolution']}",
        as_json,
    )
    if page["resolution"] != "provisioned":
        why = "its partitions are not ready yet: look again with `docstore topic describe`"
        if page["resolution"] == "insufficient-resources":
            why = f"there are too few members for {each} of each partition: add members"
        raise failed(CommandFailed(f"topic {name} was created, but {why}"))


@topic.command("list")
def list_topics(url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """List the topics."""
    pages = talk(url, lambda client: documents_of(client, STREAMS))
    if as_json:
        show(pages)
        return
    rows = [
        (page["name"], str(page["partitions"]), str(page["replicationFactor"]),
         str(page["minInSync"]), page["resolution"])
        for page in pages
    ]  # fmt: skip
    columns = ("topic", "partitions", "replicas", "in sync at least", "state")
    print_table(columns, rows, empty=NO_TOPICS)


@topic.command("describe")
def describe(name: Topic, url: Urls = DEFAULT_URLS, as_json: AlwaysJson = False) -> None:
    """Show a topic and its partitions, as JSON."""
    show(talk(url, lambda client: client.json("GET", path_of(STREAMS, name))))


@topic.command("alter")
def alter(
    name: Topic,
    partitions: Annotated[
        int | None, typer.Option("-p", "--partitions", help="New number of partitions, only more.")
    ] = None,
    min_in_sync: MinInSync = None,
    retention: RetentionMs = "",
    retention_bytes: RetentionBytes = "",
    compression: Compression = "",
    cleanup: Cleanup = "",
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Change the settings of a topic, or give it more partitions."""
    kept = _retention(retention, retention_bytes)
    given = {
        "partitions": partitions, "minInSync": min_in_sync, "retention": kept or None,
        "compression": compression or None,
        "cleanup": cleanup or None,
    }  # fmt: skip
    asked = {member: value for member, value in given.items() if value is not None}
    if not asked:
        raise typer.BadParameter("give a setting to change, such as --retention 7d")
    page = talk(url, lambda client: client.json("PATCH", path_of(STREAMS, name), asked))
    tell(page, f"{name}: {count(page['partitions'], 'partition')}, {page['resolution']}", as_json)


@topic.command("delete")
def delete(name: Topic, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Delete a topic and all its records."""
    page = talk(url, lambda client: client.json("DELETE", path_of(STREAMS, name)))
    tell(page, f"{name} is deleted", as_json)


@partition.command("list")
def list_partitions(
    name: Annotated[
        str,
        typer.Argument(
            help="A topic; without it, all topics.",
            metavar="[TOPIC]",
            autocompletion=names(STREAMS),
        ),
    ] = "",
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Show the leader, live replica set, end offsets and lag of each partition."""
    found = talk(url, lambda client: _partitions(client, name))
    if as_json:
        show(found)
        return
    rows = [
        (each["topic"], str(each["partition"]), each["leader"] or "-", _shown(each.get("epoch")),
         each["resolution"] or "-", ",".join(node for node, _ in each.get("lrs", ())),
         _shown(each["leo"]), _shown(each["hw"]), _shown(each["base"]),
         ", ".join(map(_follower, each["followers"])))
        for each in found
    ]  # fmt: skip
    columns = (
        "topic", "partition", "leader", "epoch", "state", "LRS", "LEO", "HW", "base",
        "followers (LEO, lag)",
    )  # fmt: skip
    print_table(columns, rows, empty=NO_TOPICS)


Number = Annotated[int, typer.Argument(help="Number of the partition.", min=0)]
Node = Annotated[str, typer.Argument(help="Id of a node that has a replica.")]


@partition.command("elect")
def elect(
    name: Topic,
    number: Number,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="Let a replica lead that may lack committed records."),
    ] = False,
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Start an election of a partition's leader."""
    asked = {"kind": "ElectRequest", **({"unclean": True} if unclean else {})}
    tell(_asked(name, number, asked, url), f"an election of {name}/{number} has begun", as_json)


@partition.command("lead")
def lead(
    name: Topic, number: Number, to: Node, url: Urls = DEFAULT_URLS, as_json: AsJson = False
) -> None:
    """Move the lead of a partition to another of its replicas."""
    asked = {"kind": "MoveLeaderRequest", "to": to}
    tell(_asked(name, number, asked, url), f"{name}/{number} moves to {to}", as_json)


@partition.command("move")
def move(
    name: Topic,
    number: Number,
    nodes: Annotated[list[str], typer.Argument(help="Ids of the nodes of its new replicas.")],
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Assign the replicas of a partition to other nodes, which copy it in the background."""
    asked = {"kind": "MoveRequest", "replicas": nodes}
    said = f"{name}/{number} moves to {', '.join(nodes)}: see `docstore partition list {name}`"
    tell(_asked(name, number, asked, url), said, as_json)


@partition.command("delete-records")
def delete_records(
    name: Topic,
    number: Number,
    before: Annotated[
        int | None, typer.Option(help="Offset of the first record that stays.", min=0)
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Delete all records that are committed.")
    ] = False,
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Delete the oldest records of a partition, up to an offset."""
    if everything == (before is not None):
        raise typer.BadParameter("give --before OFFSET, or --all")
    asked = {"kind": "DeleteRecordsRequest", "before": -1 if before is None else before}
    page = _asked(name, number, asked, url)
    tell(page, f"{name}/{number} begins at {page['base']}", as_json)


def _asked(name: str, number: int, asked: Json, url: list[str]) -> Json:
    """Return the answer to a request about a partition."""
    path = f"{path_of(STREAMS, name)}/partitions/{number}"
    page: Json = talk(url, lambda client: client.json("PATCH", path, asked))
    return page


async def _partitions(client: "Client", name: str) -> list[Json]:
    if name:
        pages = [await client.json("GET", f"{path_of(STREAMS, name)}/partitions")]
    else:
        names = [page["name"] for page in await documents_of(client, STREAMS)]
        pages = await read_all(client, [f"{path_of(STREAMS, each)}/partitions" for each in names])
    return [
        {"topic": page["documentSelfLink"].split("/")[3], **entry}
        for page in pages
        for entry in page["partitions"]
    ]


def _shown(figure: int | None) -> str:
    return "?" if figure is None else str(figure)


def _follower(figures: Json) -> str:
    return f"{figures['id']} ({figures['leo']}, {_shown(figures['lag'])})"
