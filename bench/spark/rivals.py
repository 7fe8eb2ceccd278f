"""The same documents in PostgreSQL and in files, for the same Spark in the same run."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.spark.stage import FACTORY, body

DRIVER = Path("/usr/share/java/postgresql.jar")
BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
TABLE = (
    "CREATE TABLE orders (link text, version bigint, epoch bigint, owner text, updated timestamptz,"
    " action text, slot bigint, seq bigint, body text, part bigint)"
)


def files(directory: Path, documents: int) -> Path:
    """Write the documents as JSON lines, in two files; return their directory."""
    lines = directory / "lines"
    lines.mkdir()
    half = documents // 2
    for number, numbers in enumerate((range(half), range(half, documents))):
        with (lines / f"part-{number}.json").open("wb") as out:
            out.writelines(body(n) + b"\n" for n in numbers)
    return lines


def has_postgres() -> bool:
    """Say whether there are a server and a driver."""
    return bool(BINARIES) and DRIVER.exists()


@contextmanager
def postgres(documents: int) -> Iterator[str]:
    """Run a server of our own with the documents in a table; yield its JDBC address."""
    directory = Path(tempfile.mkdtemp(prefix="docstore-pg-"))
    binaries, port = BINARIES[-1], 54_329
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    if os.getuid():
        as_user = []
    else:
        shutil.chown(directory, "postgres", "postgres")

    def call(*arguments: str, source: bytes | None = None) -> None:
        subprocess.run([*as_user, *arguments], check=True, capture_output=True, input=source,
                       cwd=directory)  # fmt: skip

    data = str(directory / "data")
    call(str(binaries / "initdb"), "-D", data, "-A", "trust", "-U", "bench", "-E", "UTF8")
    options = f"-p {port} -k {directory} -c listen_addresses=127.0.0.1 -c shared_buffers=1GB"
    call(str(binaries / "pg_ctl"), "-D", data, "-w", "-l", str(directory / "log"), "-o", options,
         "start")  # fmt: skip
    try:
        psql = [str(binaries / "psql"), "-h", "127.0.0.1", "-p", str(port), "-U", "bench", "-q",
                "postgres"]  # fmt: skip
        call(*psql, "-c", TABLE)
        call(*psql, "-c", "COPY orders FROM STDIN", source=b"".join(_lines(documents)))
        call(*psql, "-c", "CREATE INDEX ON orders (part)", "-c", "VACUUM ANALYZE orders")
        yield f"jdbc:postgresql://127.0.0.1:{port}/postgres?user=bench"
    finally:
        call(str(binaries / "pg_ctl"), "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(directory, ignore_errors=True)


def _lines(documents: int) -> Iterator[bytes]:
    for n in range(documents):
        fields = f"{FACTORY}/{n:07d}\t0\t1\tn1\t2026-11-20 12:00:00+00\tPUT\t{n % 1024}\t{n}\t"
        yield fields.encode() + body(n) + f"\t{n}\n".encode()
