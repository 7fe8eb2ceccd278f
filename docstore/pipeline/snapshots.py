"""Named snapshots: a cut with a name, and the promise that nothing it needs is let go of."""

import time
from urllib.parse import quote

from docstore.model.document import EXPIRY
from docstore.pipeline.group_client import GroupClient

SNAPSHOTS = "/core/snapshots"


def snapshot(url: str, name: str, *, ttl_s: int = 86_400, as_of: str = "latest") -> str:
    """Keep the cut of now, or another one, under a name for `ttl_s` seconds; return its token."""
    group = GroupClient(url.split(","))
    cut = str(group.plan(as_of)["cut"])
    retain(group, name, cut, ttl_s)
    return cut


def retain(group: GroupClient, name: str, cut: str, ttl_s: float) -> None:
    """Have a name stand for a cut, for `ttl_s` seconds from now."""
    until = int((time.time() + ttl_s) * 1_000_000)
    page = {"cut": cut, EXPIRY: until}
    group.json("PUT", f"{SNAPSHOTS}/{quote(name, safe='')}", page)


def drop_snapshot(url: str, name: str) -> None:
    """Let go of a named snapshot before its time."""
    GroupClient(url.split(",")).json("DELETE", f"{SNAPSHOTS}/{quote(name, safe='')}")
