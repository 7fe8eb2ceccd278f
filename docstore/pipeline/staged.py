"""Stage the rows of a job on the disks of nodes, and commit them together (`commit=staged`).

Each task gathers its rows in a part and puts it on two nodes (`docstore/http/staging.py`). After
the last task the driver writes the list of parts into the job's document, and has the nodes execute
them. Each line of a part names its job and batch, so a part may be executed again. A job that fails
before the commit has changed nothing. A commit with a refused row is undone (`undoing.py`). A
commit whose driver dies is finished by `finish`, or by running the job again.
"""

import json
import random
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql.types import StructType

from docstore.pipeline.bulk_lines import BulkLines, RowRefused, WriteFailed
from docstore.pipeline.group_client import FAILED, REPEATABLE, GroupClient, attempts
from docstore.pipeline.options import Options
from docstore.pipeline.outcomes import Outcomes
from docstore.pipeline.sending import IN_FLIGHT, NDJSON, malformed, writing_group

PATH = "/core/spark/staging"
COPIES = 2


@dataclass(frozen=True, slots=True)
class StagedPart:
    """The rows that one task has staged, and the nodes that hold them."""

    name: str
    urls: list[str]
    rows: int


def check(options: Options) -> None:
    """Refuse options that do not work with parts. Raises ValueError."""
    for name in ("onConflict", "onError"):
        if options.text(name).lower() == "deadletter":
            raise ValueError(
                f"docstore: {name}=deadletter needs commit=direct, where the task has the rows"
            )


def stage(
    options: Options, job: str, number: int, schema: StructType, batches: Iterator[pa.RecordBatch]
) -> tuple[Counter[str], list[StagedPart], int, bytes]:
    """Stage the rows of a task on two nodes.

    Returns its counts, the part if it has rows, its digest, and the marks of an overwrite's rows
    that are in no part.
    """
    group = writing_group(options)
    outcomes = Outcomes(options, group, job, number)
    lines = BulkLines(options, schema, len(group.layout()["owners"]))
    rows = 0
    with tempfile.TemporaryFile() as file:
        for batch in batches:
            for line in lines.of(batch, job, number):
                if line.wrong:
                    outcomes.note(line.link, line.value, malformed(line))
                else:
                    file.write(line.value + b"\n")
                    rows += 1
        outcomes.add("bytes", file.tell())
        parts = [_put(group, job, file, rows)] if rows else []
    return outcomes.counts, parts, lines.digest, bytes(outcomes.given)


def _put(group: GroupClient, job: str, file: IO[bytes], rows: int) -> StagedPart:
    """Put a part on COPIES nodes, or on all if they are fewer. Raises WriteFailed."""
    layout = group.layout()
    urls = [each["url"] for each in layout["nodes"]]
    random.shuffle(urls)  # A random order spreads the parts of tasks over nodes.
    name, wanted = uuid.uuid4().hex, min(COPIES, len(urls))
    done: list[str] = []
    last = "no node answers"
    given = [url for url in group.urls if url not in urls]
    for url in (*urls, *given):
        if url in given and done and done[-1] in urls:
            break  # The URL may be another address of a node that has the part.
        file.seek(0)
        try:
            with group.open("PUT", url, _path(job, name), file, NDJSON) as answer:
                answer.read()
            done.append(url)
        except FAILED as error:  # The next node may take the part.
            last = str(error)
        if len(done) == wanted:
            return StagedPart(name, done, rows)
    _remove(group, job, [StagedPart(name, done, rows)])
    raise WriteFailed(
        f"docstore: a part is on {len(done)} nodes, not on {wanted}: {last}; nodes are asked at the"
        " addresses that they advertise (serve --advertise), or else at those of the option url"
    )


def commit(
    options: Options, job: str, number: int, parts: Sequence[StagedPart],
    note: Callable[[Mapping[str, Any]], None] = lambda _: None,
) -> Outcomes:  # fmt: skip
    """Execute all parts; return the outcomes of their rows. Raises WriteFailed, RowRefused.

    note: called with the answer of each row, of all rows even if one is refused. The parts stay
    on the nodes if it raises: the commit may be finished later.
    """
    group = writing_group(options)
    outcomes = Outcomes(options, group, job, number)
    retries = options.number("retries", 8)
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        for done in [pool.submit(_do, group, job, part, retries, outcomes, note) for part in parts]:
            done.result()
    _remove(group, job, parts)
    return outcomes


def abandon(options: Options, job: str, parts: Sequence[StagedPart]) -> None:
    """Delete parts. A node that cannot be reached deletes its part after a day."""
    _remove(writing_group(options), job, parts)


def _do(
    group: GroupClient, job: str, part: StagedPart, retries: int, outcomes: Outcomes,
    note: Callable[[Mapping[str, Any]], None],
) -> None:  # fmt: skip
    """Have a node execute a part, until each of its rows has its final answer."""
    told: list[Mapping[str, Any] | None] = [None] * part.rows
    refused: RowRefused | None = None
    last = "no node answers"
    for attempt in attempts(retries + 1):
        if attempt:
            outcomes.add("retries")
        url = part.urls[attempt % len(part.urls)]
        try:
            with group.open("POST", url, _path(job, part.name)) as answers:
                for row, line in enumerate(answers):
                    answer = json.loads(line)
                    if answer["status"] in REPEATABLE:
                        last = f"{url}: {answer.get('detail')}"
                    elif told[row] is None:  # A second answer is that of a repetition.
                        told[row] = answer
                        note(answer)
                        try:
                            outcomes.note(answer["link"], b"", answer)
                        except RowRefused as error:  # The node still writes the other rows.
                            refused = refused or error
        except (*FAILED, ValueError) as error:
            last = str(error)
        if all(answer is not None for answer in told):
            if refused:
                raise refused
            return
    raise WriteFailed(f"docstore: {told.count(None)} rows of a part were not written: {last}")


def _remove(group: GroupClient, job: str, parts: Sequence[StagedPart]) -> None:
    for part in parts:
        for url in part.urls:
            try:
                with group.open("DELETE", url, _path(job, part.name)) as answer:
                    answer.read()
            except FAILED:
                continue  # The node deletes the part after a day.


def _path(job: str, name: str) -> str:
    return f"{PATH}/{quote(job, safe='')}/{name}"
