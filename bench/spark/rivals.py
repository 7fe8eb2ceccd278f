"""The same documents in PostgreSQL and in files, for the same Spark in the same run."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import machine
from bench.spark.stage import FACTORY, body

PACKAGES = ("postgresql", "libpostgresql-jdbc-java")
DRIVER = Path("/usr/share/java/postgresql.jar")
DRIVER_CLASS = "org.postgresql.Driver"
PROGRAMS = Path("/usr/lib/postgresql")
PORT = 54_329
TABLE = (
    "CREATE TABLE orders (link text, version bigint, epoch bigint, owner text, updated timestamptz,"
    " action text, slot bigint, seq bigint, body text, part bigint)"
)


def provide() -> None:
    """Install a server and its driver if they are missing. Raises Missing."""
    if not _has_postgres():
        machine.install(*PACKAGES)
    if not _has_postgres():
        message = f"PostgreSQL is missing. On Debian, as root: apt-get install {' '.join(PACKAGES)}"
        raise machine.Missing(message)


def _has_postgres() -> bool:
    return DRIVER.exists() and any(PROGRAMS.glob("*/bin/initdb"))


def _program(name: str) -> str:
    return str(max(PROGRAMS.glob("*/bin")) / name)


def versions() -> dict[str, str]:
    """Return the versions of Java and of PostgreSQL."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    server = [_program("postgres"), "--version"]
    version = subprocess.run(server, capture_output=True, text=True, check=True).stdout
    return {"java": java.split('"')[1], "postgresql": re.findall(r"[\d.]+", version)[0]}


def files(directory: Path, documents: int) -> Path:
    """Write the documents as JSON lines, in two files; return their directory."""
    lines = directory / "lines"
    lines.mkdir()
    half = documents // 2
    for number, numbers in enumerate((range(half), range(half, documents))):
        with (lines / f"part-{number}.json").open("wb") as out:
            out.writelines(body(n) + b"\n" for n in numbers)
    return lines


@dataclass(frozen=True, slots=True)
class Postgres:
    """A server that runs."""

    directory: Path
    user: tuple[str, ...]

    @property
    def address(self) -> str:
        """Return where JDBC finds it."""
        return f"jdbc:postgresql://127.0.0.1:{PORT}/postgres?user=bench"

    def fill(self, documents: int) -> None:
        """Make a table of documents, in the columns that a factory has."""
        self.make(TABLE, "COPY orders FROM STDIN", source=b"".join(_lines(documents)))
        self.make("CREATE INDEX ON orders (part)", "VACUUM ANALYZE orders")

    def make(self, *statements: str, source: bytes | None = None) -> None:
        """Run statements, the last one with `source` as its input."""
        asked = [part for statement in statements for part in ("-c", statement)]
        self.call("psql", "-h", "127.0.0.1", "-p", str(PORT), "-U", "bench", "-q", "postgres",
                  *asked, source=source)  # fmt: skip

    def call(self, name: str, *arguments: str, source: bytes | None = None) -> None:
        """Run a program of PostgreSQL's, not as root."""
        subprocess.run([*self.user, _program(name), *arguments], check=True, capture_output=True,
                       input=source, cwd=self.directory)  # fmt: skip


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Run a server of our own, as durable as Debian ships it."""
    directory = Path(tempfile.mkdtemp(prefix="docstore-pg-"))
    user = () if os.getuid() else ("setpriv", "--reuid=postgres", "--regid=postgres",
                                   "--clear-groups")  # fmt: skip
    if user:
        shutil.chown(directory, "postgres", "postgres")
    server, data = Postgres(directory, user), str(directory / "data")
    server.call("initdb", "-D", data, "-A", "trust", "-U", "bench", "-E", "UTF8")
    options = f"-p {PORT} -k {directory} -c listen_addresses=127.0.0.1 -c shared_buffers=1GB"
    server.call("pg_ctl", "-D", data, "-w", "-l", str(directory / "log"), "-o", options, "start")
    try:
        yield server
    finally:
        server.call("pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(directory, ignore_errors=True)


def _lines(documents: int) -> Iterator[bytes]:
    for n in range(documents):
        fields = f"{FACTORY}/{n:07d}\t0\t1\tn1\t2026-11-20 12:00:00+00\tPUT\t{n % 1024}\t{n}\t"
        yield fields.encode() + body(n) + f"\t{n}\n".encode()
