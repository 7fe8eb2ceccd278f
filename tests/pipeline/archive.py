"""An archive of Spark's classes, with which Java starts in half of the processor time.

It is made once, beside the first tests. Java starts without it as long as there is none, and when
it was made of other files.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Thread

from tests.source import ROOT

HASTY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Xlog:disable"
"""Thorough compiling does not pay in a Java that lives for a test."""


def options() -> str:
    """Return the options of Java; begin to make the archive if no other process has."""
    import pyspark

    from docstore.pipeline.sessions import insist_on_java

    jars = Path(pyspark.__file__).parent / "jars"
    made_of = (jars, jars.stat().st_mtime_ns, Path(insist_on_java()).resolve())
    name = hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]
    archive = Path(tempfile.gettempdir()) / f"docstore-java-{os.getuid()}-{name}.jsa"
    try:
        archive.with_suffix(".begun").touch(exist_ok=False)
        Thread(target=_start, args=(archive,), daemon=True).start()
    except FileExistsError:
        pass
    return f"{HASTY} -XX:SharedArchiveFile={archive}"


def _start(archive: Path) -> None:
    """Make the archive in a process that may outlive this one."""
    subprocess.run(
        [sys.executable, "-m", "tests.pipeline.archive", str(archive)],
        cwd=ROOT, env=os.environ | {"JDK_JAVA_OPTIONS": HASTY}, start_new_session=True,
        check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def make(archive: Path) -> None:
    """Use what most tests use of Spark, and keep the classes that Java has loaded for it."""
    from docstore.pipeline import session

    new = archive.with_suffix(f".{os.getpid()}")
    spark = session(
        "local[2]", "archive", driver_extraJavaOptions=f"-XX:ArchiveClassesAtExit={new}"
    )
    with tempfile.TemporaryDirectory() as folder:
        table = f"{folder}/table"
        rows = spark.range(100).selectExpr("id", "id % 7 AS k", "CAST(id AS STRING) AS s")
        rows.mapInArrow(lambda batches: batches, rows.schema).write.parquet(table)
        read = spark.readStream.schema(rows.schema).parquet(table).groupBy("k").count()
        write = read.writeStream.outputMode("complete").format("memory").queryName("counted")
        write.trigger(availableNow=True).option("checkpointLocation", f"{folder}/state").start()
        spark.streams.awaitAnyTermination(60)
        spark.sql("SELECT * FROM counted ORDER BY k").collect()
    java = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    spark.stop()
    java.stdin.close()
    if java.wait() == 0:
        new.rename(archive)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
