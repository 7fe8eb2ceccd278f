"""Count the outcomes of a job's rows, and treat refused rows as the options say."""

import hashlib
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

from docstore.pipeline.bulk_lines import OPERATIONS, RowRefused
from docstore.pipeline.group_client import GroupClient
from docstore.pipeline.options import Options

ON_CONFLICT = ("fail", "skip", "deadletter")
ON_REPEAT = ("fail", "keep")
"""Treatment of a row whose batch has written another value to its link."""
DUPLICATE, STALE = "duplicate-key", "stale-batch"
WHAT_TO_DO = {
    DUPLICATE: "; use sequenceBy to order two rows with one link; if a repeated batch has other"
    " values each time, use onRepeat=keep to keep the first ones",
    STALE: "; this run is of an earlier batch: give it another jobId, or a later batchId",
}
DEAD_LETTERS = "/core/spark/dead"
OVERWRITES = "overwrites"
"""Option that only writers of tables set: whether to remember the links of all rows."""


def marked(link: str) -> bytes:
    """Return eight bytes of a link's hash, to remember many links in little memory."""
    return hashlib.blake2b(link.encode(errors="surrogatepass"), digest_size=8).digest()


class Outcomes:
    """Outcomes of a job's rows, counted by several threads."""

    def __init__(self, options: Options, group: GroupClient, job: str, number: int) -> None:
        self._group = group
        self._job, self._number = job, number
        self._on_conflict = options.choice("onConflict", ON_CONFLICT)
        self._keeps = options.choice("onRepeat", ON_REPEAT) == "keep"
        self._on_error = options.choice("onError", ON_CONFLICT)
        self._dead_path = options.text("deadLetterPath", DEAD_LETTERS)
        self._errors_max = options.number("maxErrors", 1 << 62)
        self._operation = options.choice("operation", OPERATIONS)
        self._is_overwrite = bool(options.text(OVERWRITES))
        self._counting = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.given = bytearray()
        """Marks of the links of all rows of an overwrite, refused ones included."""

    def add(self, name: str, count: int = 1) -> None:
        with self._counting:
            self.counts[name] += count

    def note(self, link: str, row: bytes, answer: Mapping[str, Any]) -> None:
        """Count the outcome of a row. Raises RowRefused if it fails the job."""
        with self._counting:
            if self._is_overwrite and link:
                self.given += marked(link)
            self._judge(link, row, answer)

    def _judge(self, link: str, row: bytes, answer: Mapping[str, Any]) -> None:
        status, code = answer["status"], answer.get("errorCode", "")
        if status < 300 and not answer.get("repeated"):
            self.counts["written"] += 1
        elif status < 300 or (code == DUPLICATE and self._keeps):
            self.counts["repeated"] += 1
        elif (status == 409 and code == "already-exists" and self._operation == "ignore") or (
            status == 404 and self._operation == "delete"
        ):
            self.counts["skipped"] += 1
        else:
            is_conflict = status in (409, 412) and code not in (DUPLICATE, STALE)
            self._refused(link, row, answer, self._on_conflict if is_conflict else self._on_error)

    def _refused(self, link: str, row: bytes, answer: Mapping[str, Any], then: str) -> None:
        status, code = answer["status"], answer.get("errorCode", "")
        said = f"{link}: {status} {code}: {answer.get('detail')}"
        if then == "fail" or code == STALE:
            name = code.upper().replace("-", "_")
            raise RowRefused(f"docstore: {name}: {said}{WHAT_TO_DO.get(code, '')}")
        self.counts["conflicted" if then == "skip" else "dead"] += 1
        if self.counts["conflicted"] + self.counts["dead"] > self._errors_max:
            raise RowRefused(
                f"docstore: more than maxErrors={self._errors_max} rows were refused; {said}"
            )
        if then == "deadletter":
            self._bury(link, row, answer)

    def _bury(self, link: str, row: bytes, answer: Mapping[str, Any]) -> None:
        """Keep a refused row as a dead letter, named by its content: a repetition adds none."""
        name = hashlib.sha256(self._job.encode() + row).hexdigest()[:32]
        letter = {
            "job": self._job, "batch": self._number, "link": link,
            "status": answer["status"], "errorCode": answer.get("errorCode"),
            "detail": answer.get("detail"), "row": row.decode(),
        }  # fmt: skip
        self._group.json("PUT", f"{self._dead_path}/{name}", letter)
