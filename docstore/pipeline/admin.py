"""`format("docstore.admin")`: the state of the group as small tables.

spark.read.format("docstore.admin").option("url", ...).load("slots")
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from docstore.model.document import EXPIRY
from docstore.model.settings import quoted
from docstore.pipeline.group_client import GroupClient
from docstore.pipeline.options import Options

PAGE = "$limit=1000"


def schema_of(options: Options) -> str:
    return _table(options)[0]


class AdminReader(DataSourceReader):
    """Reads one of the tables in one task, since they are small."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        yield from _table(self._options)[1](self._options.group)


def _nodes(group: GroupClient) -> Iterator[tuple[Any, ...]]:
    for node in group.layout()["nodes"]:
        yield node["id"], node["url"], node["zone"], node["status"]


def _slots(group: GroupClient) -> Iterator[tuple[Any, ...]]:
    layout = group.layout()
    high = group.high()
    for slot, owner in enumerate(layout["owners"]):
        name = layout["nodes"][owner]["id"] if owner >= 0 else None
        yield slot, name, high["epochs"][slot], high["ends"][slot], high["kept"][slot]


def _ring(group: GroupClient) -> Iterator[tuple[Any, ...]]:
    layout = group.layout()
    for slot, replicas in enumerate(layout["replicas"]):
        for place, number in enumerate(replicas):
            yield slot, place, layout["nodes"][number]["id"]


def _digests(group: GroupClient) -> Iterator[tuple[Any, ...]]:
    for node, slots in group.json("GET", "/core/management/digests").items():
        for slot, (end, links, digest) in slots.items():
            yield node, int(slot), end, links, digest


def _counts(group: GroupClient) -> Iterator[tuple[Any, ...]]:
    for page in _documents(group, "/core/factories"):
        count = group.json("GET", f"{page['path']}?$count=true&$limit=1")
        kind = page.get("kind") or page["path"][1:].replace("/", ":")
        yield page["path"], kind, count["documentCount"]


def _snapshots(group: GroupClient) -> Iterator[tuple[Any, ...]]:
    for page in _documents(group, "/core/snapshots"):
        name = page["documentSelfLink"].rpartition("/")[2]
        yield name, page.get("cut"), page.get(EXPIRY)


def _jobs(group: GroupClient) -> Iterator[tuple[Any, ...]]:
    for page in _documents(group, "/core/spark/jobs"):
        yield page.get("job"), page.get("name"), page.get("state"), str(page)


def _dead_letters(group: GroupClient) -> Iterator[tuple[Any, ...]]:
    for page in _documents(group, "/core/spark/dead"):
        names = ("job", "link", "status", "errorCode", "detail", "row")
        yield tuple(page.get(name) for name in names)


def _documents(group: GroupClient, factory: str) -> Iterator[dict[str, Any]]:
    path: str | None = f"{factory}?{PAGE}&expand"
    while path:
        page = group.json("GET", path)
        yield from page["documents"].values()
        path = page.get("nextPageLink")


Table = tuple[str, Callable[[GroupClient], Iterator[tuple[Any, ...]]]]
"""(columns of a table, function that yields its rows)."""
TABLES: dict[str, Table] = {
    "nodes": ("id string, url string, zone string, status string", _nodes),
    "slots": ("slot long, owner string, epoch long, n long, kept long", _slots),
    "ring": ("slot long, place long, node string", _ring),
    "digests": ("node string, slot long, end long, links long, digest string", _digests),
    "counts": ("path string, kind string, documents long", _counts),
    "snapshots": ("name string, cut string, expires long", _snapshots),
    "jobs": ("job string, name string, state string, body string", _jobs),
    "deadletters": (
        "job string, link string, status long, code string, detail string, row string",
        _dead_letters,
    ),
}


def _table(options: Options) -> Table:
    """Return the table that the options name. Raises ValueError."""
    name = options.text("path").strip("/")
    if name not in TABLES:
        raise ValueError(f"docstore: load must name one of {', '.join(TABLES)}; got {quoted(name)}")
    return TABLES[name]
