"""Pin the cut of a relation, and keep cuts under names.

A cut is pinned when Spark resolves a relation, so that one query reads one cut. Spark asks a source
for its schema once for each relation, keeps the source, and makes the readers of all scans from it.
So the cut that `schema` finds serves both sides of a self-join, and all statements over a temporary
view. Spark does not ask if it is given the columns (`.schema(...)`, a view with columns). Then each
scan may make a source of its own, so the caller must name the cut.
"""

import time
from urllib.parse import quote

from docstore.model.document import EXPIRY
from docstore.pipeline.group_client import GroupClient
from docstore.pipeline.options import Options
from docstore.query.cut import is_token

SNAPSHOTS = "/core/snapshots"
MOVING = ("", "latest", "barrier", "earliest")
"""Words that name another cut each time they are resolved."""


def pinned(options: Options) -> Options:
    """Return the options with asOf replaced by the token of its cut. Raises GroupError, OSError."""
    as_of = options.text("asOf", "latest")
    if is_token(as_of):
        return options
    return options.with_(asOf=str(options.group.plan(as_of, options.path)["cut"]))


def insist_on_cut(options: Options, *names: str) -> None:
    """Raise ValueError if one of the options would be another cut in each scan."""
    for name in names:
        if options.text(name) in MOVING:
            raise ValueError(
                f"docstore: with .schema(...) each scan would read a cut of its own: give"
                f' option("{name}", ...) a token, a snapshot or a time; or name the members of'
                ' documents by option("members", "total double, note string") instead'
            )


def snapshot(url: str, name: str, *, ttl_s: int = 86_400, as_of: str = "latest") -> str:
    """Keep a cut under a name for `ttl_s` seconds; return its token."""
    group = GroupClient(url.split(","))
    cut = str(group.plan(as_of)["cut"])
    retain(group, name, cut, ttl_s)
    return cut


def retain(group: GroupClient, name: str, cut: str, ttl_s: float) -> None:
    """Keep the versions that a cut needs for `ttl_s` seconds from now."""
    until = int((time.time() + ttl_s) * 1_000_000)
    group.json("PUT", f"{SNAPSHOTS}/{quote(name, safe='')}", {"cut": cut, EXPIRY: until})


def drop_snapshot(url: str, name: str) -> None:
    """Delete a named snapshot before it expires."""
    GroupClient(url.split(",")).json("DELETE", f"{SNAPSHOTS}/{quote(name, safe='')}")
