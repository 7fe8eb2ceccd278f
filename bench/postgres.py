"""PostgreSQL beside docstore: one node, the same documents as JSONB, indexes of expressions.

`pgbench` asks, one client on a Unix socket. Nothing is measured where the server is not installed.
"""

import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

SECONDS = 4
_TABLE = """
CREATE TABLE films (link text PRIMARY KEY, doc jsonb);
\\copy films FROM pstdin
"""
_INDEXES = """
CREATE INDEX ON films (((doc->>'year')::int), link);
CREATE INDEX ON films (((doc->>'year')::int), (doc->>'title'));
VACUUM ANALYZE films;
"""
_PAGE = "SELECT link, doc FROM films WHERE {where} ORDER BY {order} LIMIT {rows};"
_YEAR = "(doc->>'year')::int"
_QUERIES = {
    "equality": (f"{_YEAR} = :year", "link"),
    "range": (f"{_YEAR} >= :year AND {_YEAR} < :year + 5", "link"),
    "order": (f"({_YEAR}, doc->>'title') > (:year, 'M')", f"{_YEAR}, doc->>'title'"),
}


def measured(lines: Iterable[str], rows: int) -> Mapping[str, dict[str, float]]:
    """Return figures of each query. lines: documents as JSON, with their link."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not programs:
        print("PostgreSQL is not installed: no row of it")
        return {}
    with _server(programs[-1].parent) as server:
        server.run("psql", "-q", text=_TABLE + "".join(_copied(lines)))
        server.run("psql", "-q", text=_INDEXES)
        return {name: server.timed(*query, rows) for name, query in _QUERIES.items()}


class _Server:
    """A running server."""

    def __init__(self, programs: Path, directory: Path) -> None:
        self.programs, self.directory = programs, directory

    def run(self, program: str, *arguments: str, text: str = "") -> None:
        """Run a program of PostgreSQL's as its user; it does not run as root."""
        command = [str(self.programs / program), *arguments]
        if program in ("psql", "pgbench"):
            command += ["-h", str(self.directory), "postgres"]
        subprocess.run(
            ["runuser", "-u", "postgres", "--", *command],
            input=text.encode(), stdout=subprocess.DEVNULL, check=True, cwd=self.directory,
        )  # fmt: skip

    def timed(self, where: str, order: str, rows: int) -> dict[str, float]:
        """Return figures of one query, asked for some seconds."""
        query = _PAGE.format(where=where, order=order, rows=rows)
        (self.directory / "query").write_text(f"\\set year random(1920, 2019)\n{query}\n")
        log = self.directory / "log"
        self.run("pgbench", "-n", "-f", "query", "-T", str(SECONDS), "-l", "--log-prefix", str(log))
        [path] = self.directory.glob("log.*")
        times = [int(line.split()[2]) / 1000 for line in path.read_text().splitlines()]
        path.unlink()
        p95 = statistics.quantiles(times, n=20)[-1]
        return {"p50_ms": statistics.median(times), "p95_ms": p95, "times": len(times)}


@contextmanager
def _server(programs: Path) -> Iterator[_Server]:
    with tempfile.TemporaryDirectory() as name:
        shutil.chown(name, "postgres")
        server = _Server(programs, Path(name))
        data, options = f"{name}/data", f"-c listen_addresses= -k {name}"
        server.run("initdb", "-D", data, "-A", "trust")
        server.run("pg_ctl", "-D", data, "-w", "-l", f"{name}/server.log", "-o", options, "start")
        try:
            yield server
        finally:
            server.run("pg_ctl", "-D", data, "-m", "immediate", "stop")


def _copied(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a COPY; the documents have no backslash and no tab."""
    for line in lines:
        link = line.partition('"link": "')[2].partition('"')[0]
        yield f"{link}\t{line}\n"
    yield "\\.\n"
