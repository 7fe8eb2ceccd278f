"""`restore`: write a factory as it was at a moment, from an export and later changes."""

from typing import Any

import pyspark.sql.functions as F  # noqa: N812
from pyspark.sql import DataFrame, Window

from docstore.pipeline import tables
from docstore.pipeline.jobs.contents import moved
from docstore.pipeline.jobs.exporting import manifest_of
from docstore.pipeline.jobs.importing import read_export, stored
from docstore.pipeline.jobs.work import Work


def restore(
    work: Work, *, source: str, into: str, feed_url: str = "", until: str = ""
) -> dict[str, Any]:
    """Write the documents of an export, changed by the feed at `feed_url` up to `until`.

    This restores the whole factory: documents that the restored moment does not have are deleted.
    It restores bodies: versions and epochs continue, or begin, in this factory. Raises ValueError,
    NotTheSame, TrimmedFeed.
    """
    manifest = manifest_of(work, source)
    if manifest is None:
        raise ValueError(
            f"{source} has no manifest, so it is not a complete export; export it again"
        )
    # Checked, since the documents of a lost file would be deleted.
    exported = read_export(work, source, manifest)
    state = exported.select("documentSelfLink", "body")
    changed = 0
    if feed_url:
        feed = tables.changes(
            work.spark, feed_url, manifest["path"], start=manifest["cut"], end=until or "latest",
            stream=False,
        ).cache()  # fmt: skip
        changed = feed.count()
        state = folded(state, feed)
    state = moved(state, manifest["path"], into).cache()
    return stored(
        work, state, into, {"source": source, "into": into, "changes": changed}, is_all=True
    )


def folded(state: DataFrame, feed: DataFrame) -> DataFrame:
    """Return links and bodies after the changes of a feed that begins at `state`."""
    newest = Window.partitionBy("documentSelfLink").orderBy(F.desc("documentVersion"))
    last = (
        feed.withColumn("turn", F.row_number().over(newest))
        .filter("turn = 1")
        .select("documentSelfLink", "body", "deleted")
    )
    untouched = state.join(last, "documentSelfLink", "left_anti")
    return untouched.unionByName(last.filter("NOT deleted").drop("deleted"))
