"""`tour`: show the pipeline on the documents of any factory, as the last act of the demo.

It exports a snapshot as Parquet, sums over it in plain Spark, keeps the same sum as a view by the
change feed, writes the view back and compares both.
"""

from pathlib import Path
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from docstore.pipeline import tables
from docstore.pipeline.jobs.exporting import export
from docstore.pipeline.jobs.viewing import matview
from docstore.pipeline.jobs.work import Work


def tour(work: Work, *, path: str, member: str, directory: str) -> dict[str, Any]:
    """Export, aggregate, write back and compare, by one member of the documents."""
    work.progress("Spark runs; exporting a snapshot as Parquet")
    exported = export(work, path=path, to=str(Path(directory) / "parquet"))
    work.progress(f"{exported['rows']} documents exported; feeding a view by the changes")
    view = matview(
        work, path=path, into=f"{path}-by-{member}", keys=member, check=True,
        rows=f"SELECT `{member}` FROM documents",  # noqa: S608 - a name of ours
        schema=f"`{member}` string",
        checkpoint=str(Path(directory) / "checkpoint"),
    )  # fmt: skip
    work.progress("the view is compared; summing over Parquet")
    plain = work.spark.read.parquet(str(Path(directory) / "parquet"))
    value = F.get_json_object("body", f"$.{member}")
    most = plain.groupBy(value.alias("value")).count().orderBy(F.desc("count"), "value").first()
    work.progress("reading the view back")
    written = tables.read(work.spark, work.url, f"{path}-by-{member}", columns=("documentVersion",))
    return {
        "rows": exported["rows"], "groups": written.count(), "equalsBatch": view["equalsBatch"],
        "most": [most["value"], most["count"]] if most else None,
    }  # fmt: skip
