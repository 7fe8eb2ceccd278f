"""Send the rows of one task to the nodes that own their documents.

A request has a bounded size, and a few requests are in flight at a time. Each row names the job and
its batch (`docstore/documents/jobs.py`), so a request whose answer was lost is sent again.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql.types import StructType

from docstore.pipeline import group_client
from docstore.pipeline.bulk_lines import BulkLine, BulkLines, WriteFailed
from docstore.pipeline.options import Options
from docstore.pipeline.outcomes import Outcomes

NDJSON = {"Content-Type": "application/x-ndjson"}
BYTES_AT_ONCE = 1 << 20
IN_FLIGHT = 4


def writing_group(options: Options) -> group_client.GroupClient:
    """Return a client with the option timeoutMs as its timeout, 60 s by default."""
    return group_client.GroupClient(options.urls, timeout_s=options.timeout_s(60_000))


class Sender:
    """Writes the rows of one task."""

    def __init__(self, options: Options, job: str, number: int, schema: StructType) -> None:
        self._group = writing_group(options)
        self._job, self._number = job, number
        self._outcomes = Outcomes(options, self._group, job, number)
        self._rows_at_once = options.number("batchRows", 1000, 1)
        self._retries = options.number("retries", 8)
        self._take_layout()
        self._lines = BulkLines(options, schema, len(self._owners))

    def _take_layout(self) -> None:
        layout = self._group.layout()
        self._urls = [each["url"] for each in layout["nodes"]]
        self._owners: list[int] = layout["owners"]

    @property
    def digest(self) -> int:
        """Digest of the rows sent so far."""
        return self._lines.digest

    @property
    def given(self) -> bytes:
        """Marks of the links of an overwrite's rows so far."""
        return bytes(self._outcomes.given)

    def send(self, batches: Iterator[pa.RecordBatch]) -> Counter[str]:
        """Write all rows; return the number of rows by outcome."""
        waiting: dict[int, list[BulkLine]] = {}
        sizes: Counter[int] = Counter()
        running: set[Future[None]] = set()
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            for batch in batches:
                for line in self._lines.of(batch, self._job, self._number):
                    if line.wrong:
                        self._outcomes.note(line.link, line.value, malformed(line))
                        continue
                    owner = self._owners[line.slot]
                    waiting.setdefault(owner, []).append(line)
                    sizes[owner] += len(line.value)
                    full = len(waiting[owner]) >= self._rows_at_once
                    if full or sizes[owner] >= BYTES_AT_ONCE:
                        sizes[owner] = 0
                        running.add(pool.submit(self._deliver, waiting.pop(owner)))
                        running = _some_done(running)
            running |= {pool.submit(self._deliver, lines) for lines in waiting.values()}
            for future in running:
                future.result()
        return self._outcomes.counts

    def _deliver(self, lines: list[BulkLine]) -> None:
        """Send the lines of one owner until each has its final answer."""
        last = "no node answers"
        for attempt in group_client.attempts(self._retries + 1):
            if attempt:
                self._outcomes.add("retries")
                self._take_layout()
            url = self._url_of(lines[0], attempt)
            try:
                answers = self._post(url, lines)
            except (*group_client.FAILED, ValueError) as error:
                group_client.insist_on_retry(error, group_client.REPEATABLE)
                last = str(error)
                continue
            again = []
            for line, answer in zip(lines, answers, strict=True):
                if answer["status"] in group_client.REPEATABLE:
                    again.append(line)
                    last = f"{url}: {answer.get('detail')}"
                else:
                    self._outcomes.note(line.link, line.value, answer)
            if not again:
                return
            lines = again
        raise WriteFailed(
            f"docstore: no node has confirmed {len(lines)} rows. Run the job again with the same"
            f" jobId, which writes no row twice; the last error was: {last}"
        )

    def _url_of(self, line: BulkLine, attempt: int) -> str:
        """Return the URL of the owner; from the third attempt on, a URL given by the caller."""
        owner = self._owners[line.slot]
        url = self._urls[owner] if owner >= 0 else ""
        if attempt > 1 or not url:
            url = self._group.urls[attempt % len(self._group.urls)]
        return url

    def _post(self, url: str, lines: Sequence[BulkLine]) -> list[dict[str, Any]]:
        body = b"\n".join(line.value for line in lines) + b"\n"
        with self._group.open("POST", url, "/core/bulk", body, NDJSON) as answer:
            answers = [orjson.loads(line) for line in answer.read().splitlines()]
        if len(answers) != len(lines):
            raise OSError(f"{url}: the answer was cut off")
        self._outcomes.add("bytes", len(body))
        return answers


def malformed(line: BulkLine) -> dict[str, Any]:
    """Return the answer that a node would give for a row that cannot be sent."""
    return {"status": 400, "errorCode": "malformed", "detail": line.wrong}


def _some_done(running: set[Future[None]]) -> set[Future[None]]:
    """Wait while too many requests are in flight. Raises the error of a failed one."""
    if len(running) < IN_FLIGHT:
        return running
    done, rest = wait(running, return_when="FIRST_COMPLETED")
    for future in done:
        future.result()
    return rest
