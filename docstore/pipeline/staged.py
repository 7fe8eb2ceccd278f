"""A job's rows on disks first, and done only when all of them are there (`commit=staged`).

Each task gathers its rows in a part and puts it on two nodes (`docstore/http/staging.py`). When no
task is left the driver writes down which parts belong to the job, and has the nodes do them, lines
with job and batch like any others, so that a part may be done again. A job that fails before has
changed nothing. One of whose rows is refused then is undone (`undoing.py`), and one whose driver
dies after it is finished by `finish`, or by running it again.
"""

import http.client
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
from docstore.pipeline.group_client import GroupClient, GroupError, pause
from docstore.pipeline.options import Options
from docstore.pipeline.outcomes import Outcomes
from docstore.pipeline.sending import AGAIN, IN_FLIGHT, NDJSON, malformed

PATH = "/core/spark/staging"
COPIES = 2


@dataclass(frozen=True, slots=True)
class StagedPart:
    """What one task has put on disks: its name, and on which nodes it is."""

    name: str
    urls: list[str]
    rows: int


def check(options: Options) -> None:
    """Refuse what does not go together with parts. Raises ValueError."""
    for name in ("onConflict", "onError"):
        if options.text(name).lower() == "deadletter":
            raise ValueError(f"docstore: {name}=deadletter needs commit=direct: rows are at hand")


def stage(
    options: Options, job: str, number: int, schema: StructType, batches: Iterator[pa.RecordBatch]
) -> tuple[Counter[str], list[StagedPart], int, bytes]:
    """Put a task's rows on two nodes.

    Return its counts, the part if there are rows, its digest, and the marks of an overwrite's rows
    that are in no part.
    """
    group = _group(options)
    outcomes = Outcomes(options, group, job, number)
    lines = BulkLines(options, schema, len(group.json("GET", "/core/spark/layout")["owners"]))
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
    """Put a part on as many nodes as it should be on. Raises WriteFailed."""
    layout = group.json("GET", "/core/spark/layout")
    urls = [each["url"] for each in layout["nodes"]]
    random.shuffle(urls)  # Tasks spread over nodes.
    name, wanted = uuid.uuid4().hex, min(COPIES, len(urls))
    done: list[str] = []
    last = "no node answers"
    given = [url for url in group.urls if url not in urls]
    for url in (*urls, *given):
        if url in given and done and done[-1] in urls:
            break  # It may be another address of the node that has the part.
        file.seek(0)
        try:
            with group.open("PUT", url, _path(job, name), file, NDJSON) as answer:
                answer.read()
            done.append(url)
        except (OSError, http.client.HTTPException, GroupError) as error:
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
    """Have all parts done; return what became of their rows. Raises WriteFailed.

    note: is given each row's answer, of all rows also where one is refused. What is raised says
    whether to finish later or to look at the rows: parts are still there.
    """
    group = _group(options)
    outcomes = Outcomes(options, group, job, number)
    retries = options.number("retries", 8)
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        for done in [pool.submit(_do, group, job, part, retries, outcomes, note) for part in parts]:
            done.result()
    _remove(group, job, parts)
    return outcomes


def abandon(options: Options, job: str, parts: Sequence[StagedPart]) -> None:
    """Take parts away that nobody will ask for; those that cannot be reached go after a day."""
    _remove(_group(options), job, parts)


def _do(
    group: GroupClient, job: str, part: StagedPart, retries: int, outcomes: Outcomes,
    note: Callable[[Mapping[str, Any]], None],
) -> None:  # fmt: skip
    """Have a node do a part, until each of its rows has an answer for good."""
    told: list[Mapping[str, Any] | None] = [None] * part.rows
    refused: RowRefused | None = None
    last = "no node answers"
    for attempt in range(retries + 1):
        if attempt:
            outcomes.add("retries")
            pause(attempt - 1)
        url = part.urls[attempt % len(part.urls)]
        try:
            with group.open("POST", url, _path(job, part.name)) as answers:
                for row, line in enumerate(answers):
                    answer = json.loads(line)
                    if answer["status"] in AGAIN:
                        last = f"{url}: {answer.get('detail')}"
                    elif told[row] is None:  # The first one counts: later, it is a repetition.
                        told[row] = answer
                        note(answer)
                        try:
                            outcomes.note(answer["link"], b"", answer)
                        except RowRefused as error:  # The node does the other rows all the same.
                            refused = refused or error
        except (OSError, http.client.HTTPException, GroupError, ValueError) as error:
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
            except (OSError, http.client.HTTPException, GroupError):
                continue  # It goes by itself after a day.


def _group(options: Options) -> GroupClient:
    return GroupClient(options.urls, timeout_s=options.number("timeoutMs", 60_000, 1) / 1000)


def _path(job: str, name: str) -> str:
    return f"{PATH}/{quote(job, safe='')}/{name}"
