"""`docstore load`: load a file into a factory through /core/bulk, several requests in flight.

Ids come from fields of a row, or from the file's name and the row's number. Characters that a path
cannot hold are percent-encoded, so different fields make different ids. A duplicate id is an error
that names both rows, found before the first request. A journal lists the acknowledged batches, so
that an interrupted load continues where it stopped.
"""

import asyncio
import hashlib
import io
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from docstore.cli.terminal import CommandFailed
from docstore.client import Client
from docstore.model.ingest import SourceRow, id_of_fields, is_array, of_array, of_lines, of_table
from docstore.model.paths import id_of
from docstore.model.slots import SLOTS_MAX, slot_of
from docstore.model.words import count

BATCH_ROWS = 250
IN_FLIGHT = 6


class BadFile(CommandFailed):
    """The file, or a row of it, cannot be loaded."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A file to load, the target factory, and the source of the ids."""

    file: Path
    into: str
    ids: str = "row"
    upsert: bool = False


class Numbered(NamedTuple):
    """A row with its number in the file, its link and its members."""

    number: int
    link: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Numbers of documents loaded now and by earlier runs, and the duration."""

    documents: int
    skipped: int
    seconds: float


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSON array, NDJSON or CSV file. Raises BadFile."""
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise BadFile(f"{file}: {error.strerror}") from None
    if file.suffix.lower() == ".csv":
        found = of_table(io.BytesIO(raw))
    else:
        found = of_array(raw) if is_array(raw[:1024]) else of_lines(io.BytesIO(raw))
    return [_good(file, record) for record in found]


def _good(file: Path, record: SourceRow) -> dict[str, Any]:
    if record.wrong:
        raise BadFile(f"{file}: line {record.line}: {record.wrong}")
    return record.value


def links_of(plan: Plan, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return a link for each row. Raises BadFile on a missing or repeated id."""
    fields = [] if plan.ids == "row" else [field.strip() for field in plan.ids.split(",")]
    seen: dict[str, int] = {}
    links = []
    for number, row in enumerate(rows, 1):
        link = f"{plan.into.rstrip('/')}/{_id_of(plan, fields, number, row)}"
        if link in seen and not plan.upsert:
            raise BadFile(
                f"{plan.file}: rows {seen[link]} and {number} have the same id {link!r}; use"
                " --upsert to keep only the later one, or --id row to number the rows"
            )
        seen[link] = number
        links.append(link)
    return links


def _id_of(plan: Plan, fields: list[str], number: int, row: dict[str, Any]) -> str:
    if not fields:
        return id_of([f"{plan.file.stem}-{number:06d}"])
    try:
        return id_of_fields(row, fields)
    except ValueError as error:
        raise BadFile(f"{plan.file}: row {number} {error}; try --id row") from None


async def load(client: Client, plan: Plan, out: Console) -> LoadResult:
    """Load the file; print progress and the rate. Raises BadFile, ClientError."""
    found = read_rows(plan.file)
    # If rows share an id, only the last one is sent, because requests can overtake each other.
    last = {link: number for number, link in enumerate(links_of(plan, found), 1)}
    rows = [Numbered(number, link, found[number - 1]) for link, number in last.items()]
    rows.sort(key=lambda row: slot_of(row.link, SLOTS_MAX))  # Nodes store slots one by one faster.
    await client.declare(plan.into)
    journal = Journal(plan, await _cluster_id(client))
    todo = [batch for batch in _batches(len(rows)) if batch[0] not in journal.done]
    skipped = len(rows) - sum(last - first for first, last in todo)
    started = time.perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=out) as progress:
        bar = progress.add_task(f"loading {plan.into}", total=len(rows), completed=skipped)
        queue = iter(todo)

        async def work(one: Client) -> None:
            for first, last in queue:
                await _send(one, plan, rows[first:last])
                journal.note(first)
                progress.advance(bar, last - first)

        await _with_clients(client, work)
    journal.finish()
    seconds = time.perf_counter() - started
    loaded = len(rows) - skipped
    rate = f", {loaded / seconds:,.0f} documents/s" if loaded else ""
    note = f" ({skipped} were loaded before)" if skipped else ""
    out.print(f"{count(loaded, 'document')} into {plan.into} in {seconds:.2f} s{rate}{note}")
    return LoadResult(loaded, skipped, seconds)


async def _cluster_id(client: Client) -> str:
    """Return the id of the group, because a journal holds for one group only."""
    page = await client.json("GET", "/core/node-groups/default")
    return str(page["configuration"]["clusterId"])


async def _with_clients(client: Client, work: Any) -> None:
    """Run several `work` concurrently, each starting with another node."""
    urls = client.urls

    async def one(index: int) -> None:
        turned = [*urls[index % len(urls) :], *urls[: index % len(urls)]]
        async with client.to(turned, timeout_s=120.0) as turned_client:
            await work(turned_client)

    try:
        async with asyncio.TaskGroup() as group:
            for index in range(max(IN_FLIGHT, len(urls))):
                group.create_task(one(index))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None  # The first error cancelled the other tasks.


def _batches(rows: int) -> Iterator[tuple[int, int]]:
    for first in range(0, rows, BATCH_ROWS):
        yield first, min(first + BATCH_ROWS, rows)


async def _send(client: Client, plan: Plan, left: list[Numbered]) -> None:
    """Put a batch; retry rows that the group could not store. Raises BadFile for other errors."""
    for pause_s in (0.1, 0.3, 1.0, 2.0, None):
        lines = [{"op": "PUT", "link": row.link, "body": row.body} for row in left]
        results = await client.bulk(lines)
        again = []
        for row, result in zip(left, results, strict=True):
            if result["status"] in (503, 504):
                again.append(row)  # The retry is a PUT of the same state, so it is safe.
            elif result["status"] >= 300:
                detail = result.get("detail", result["status"])
                raise BadFile(f"{plan.file}: row {row.number}: {row.link}: {detail}")
        if not again:
            return
        left = again
        if pause_s is None:
            raise BadFile(
                f"{plan.file}: {count(len(left), 'row')} could not be stored; run the load again"
            )
        await asyncio.sleep(pause_s)


class Journal:
    """The acknowledged batches of one file for one target, kept in the user's cache."""

    def __init__(self, plan: Plan, cluster_id: str) -> None:
        content = hashlib.sha256(plan.file.read_bytes())
        target = (cluster_id, plan.into, plan.ids, str(plan.upsert), str(BATCH_ROWS), "by slot")
        content.update("\0".join(target).encode())
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        self._path = cache / "docstore" / "loads" / content.hexdigest()[:32]
        self.done: set[int] = set()
        if self._path.exists():
            self.done = {int(line) for line in self._path.read_text().split()}

    def note(self, first: int) -> None:
        """Record that the batch that begins at row `first` is stored."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(f"{first}\n")

    def finish(self) -> None:
        self._path.unlink(missing_ok=True)
