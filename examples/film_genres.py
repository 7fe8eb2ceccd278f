"""Genres per decade, kept up to date by a change feed. Run: python examples/film_genres.py [FILE].

FILE is a JSON array of films with title, year and genres; without one, 300 films are made up. Two
films may have one title in one year, so their ids are made of all that is in them. Needs
docstore[spark] and Java 17; without them it says so and ends.
"""

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from docstore.client import LocalCluster

ROWS = "SELECT floor(year / 10) * 10 AS decade, explode(genres) AS genre FROM documents"


def made_up() -> list[dict[str, Any]]:
    """Return invented films."""
    rng = random.Random(7)
    kinds = ("Drama", "Comedy", "Noir", "Western")
    return [
        {"title": f"Film {n}", "year": rng.randint(1950, 2025), "genres": rng.sample(kinds, 2)}
        for n in range(300)
    ]


def main(url: str, films: list[dict[str, Any]], directory: Path) -> None:
    """Import, follow, change, follow again, and compare with a batch."""
    from docstore import pipeline
    from docstore.pipeline.jobs.importing import import_
    from docstore.pipeline.jobs.viewing import matview
    from docstore.pipeline.jobs.work import Work

    file = directory / "films.json"
    file.write_text(json.dumps(films))
    spark = pipeline.session(sql_shuffle_partitions=2)  # A few thousand rows: more would be idle.
    spark.sparkContext.setLogLevel("OFF")
    work = Work(spark, url, "example", job_id="film-genres")
    done = import_(work, source=str(file), into="/films")
    print(f"imported {done['rows']} films, digests equal: {done['digestsEqual']}")

    view: dict[str, Any] = {
        "path": "/films", "into": "/genres", "rows": ROWS, "keys": "decade,genre", "check": True,
        "schema": "year long, genres array<string>", "checkpoint": str(directory / "checkpoint"),
    }  # fmt: skip
    assert matview(work, **view)["equalsBatch"]
    # A film turns out to be a Western, whatever it was before.
    first = pipeline.read(spark, url, "/films", schema="documentSelfLink string, year long").first()
    assert first is not None
    changed = spark.createDataFrame(
        [(first[0], ["Western"])], "documentSelfLink string, genres array<string>"
    )
    pipeline.write(changed, url, "/films", operation="patch", job_id="film-genres-change")
    assert matview(work, **view)["equalsBatch"]
    print("the view equals a batch over the same cut, before and after a change")
    genres = pipeline.read(
        spark, url, "/genres", schema="decade long, genre string, rows long", where="rows > 0"
    )
    for row in genres.orderBy("decade", "genre").limit(5).collect():
        print(f"  {row['decade']}s {row['genre']}: {row['rows']}")
    spark.stop()


if __name__ == "__main__":
    try:
        from docstore.pipeline.sessions import insist_on_java

        insist_on_java()
    except (ImportError, RuntimeError) as why_not:
        sys.exit(print(f"skipped: {why_not}"))
    given = json.loads(Path(sys.argv[1]).read_text()) if sys.argv[1:] else made_up()
    with LocalCluster(3) as cluster, tempfile.TemporaryDirectory() as scratch:
        main(",".join(cluster.urls), given, Path(scratch))
