"""`migrate`: copy a factory to another group while clients write to the first one.

It copies a snapshot, then the changes since, in rounds until few are left. The caller stops the
writers for the last round. Each row is written at most once per round, in log order.
"""

from typing import Any

from docstore.pipeline import tables
from docstore.pipeline.group_client import GroupClient
from docstore.pipeline.jobs.contents import moved
from docstore.pipeline.jobs.work import LINK_AND_BODY, Work, declare
from docstore.query.cut import unpack_cut

ROUNDS_MAX = 100


def migrate(
    work: Work, *, path: str, to: str, into: str = "", lag: int = 100, rounds: int = ROUNDS_MAX
) -> dict[str, Any]:
    """Copy `path` to the group at `to`, until at most `lag` changes are left."""
    into = into or path
    snapshot = tables.read(work.spark, work.url, path, columns=LINK_AND_BODY)
    if work.dry_run:
        return {"path": path, "to": to, "rows": snapshot.count()}
    target = GroupClient(to.split(","))
    declare(target, into)
    tables.write(moved(snapshot, path, into), to, into, job_id=f"{work.job_id}-snapshot")
    at = tables.cut_of(snapshot)
    copied, left = 0, lag + 1
    for number in range(rounds):
        end = work.group.plan(prefix=path)["cut"]
        feed = tables.changes(
            work.spark, work.url, path, start=at, end=end, stream=False, mode="latest"
        ).cache()
        left = feed.count()
        job = f"{work.job_id}-round"
        living = moved(feed.filter("NOT deleted").select("documentSelfLink", "body"), path, into)
        gone = moved(feed.filter("deleted").select("documentSelfLink", "body"), path, into)
        tables.write(living, to, into, job_id=job, batchId=2 * number)
        tables.write(gone, to, into, operation="delete", job_id=job, batchId=2 * number + 1)
        feed.unpersist()
        copied, at = copied + left, end
        work.progress(f"round {number + 1}: {left} changes")
        if left <= lag:
            break
    return {
        "path": path, "to": to, "into": into, "changes": copied, "left": left, "cut": at,
        "slots": unpack_cut(at).slots,
    }  # fmt: skip
