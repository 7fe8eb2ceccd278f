"""Undo a staged commit in which a row was refused.

Each document gets back its state before the commit, unless another writer has changed it since.
"""

import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import orjson
import pyarrow as pa

from docstore.pipeline.bulk_lines import FOLLOW, FOREIGN_LINKS, KEY
from docstore.pipeline.columns import schema_of
from docstore.pipeline.lookups import KEYS_AT_ONCE, KeyLookup, pages
from docstore.pipeline.options import Options
from docstore.pipeline.sending import Sender

COLUMNS = (KEY, "documentVersion", "body")


class Undoing:
    """The documents that a commit has written, by link, in a file of this machine."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - Closed by close().
        self._noting = threading.Lock()

    def close(self) -> None:
        self._file.close()

    def note(self, answer: Mapping[str, Any]) -> None:
        """Keep the outcome of a row."""
        if answer["status"] < 300:
            told = [answer["link"], answer["version"], bool(answer.get("repeated"))]
            with self._noting:
                self._file.write(orjson.dumps(told) + b"\n")

    def undo(self, options: Options, job: str, number: int, cut: str) -> Counter[str]:
        """Restore the states at a cut; `conflicted` counts the documents with later changes.

        Raises WriteFailed, GroupError, OSError.
        """
        follows = options.choice("foreignLinks", FOREIGN_LINKS) == FOLLOW
        found = KeyLookup(options.urls, "" if follows else options.path, cut)
        is_gone = options.text("operation") == "delete"
        counts: Counter[str] = Counter()
        for operation, was_there in (("delete", False), ("append_version", True)):
            dropped = ("body", "sequenceby", "maxerrors", "deadletterpath", "replacewhere")
            asked = {name: value for name, value in options.given.items() if name not in dropped}
            asked |= {
                "operation": operation, "key": KEY, "expectversion": "documentVersion",
                "onconflict": "skip", "onerror": "skip",
            }  # fmt: skip
            sender = Sender(Options(asked), f"{job}-undo", number, schema_of(COLUMNS))
            counts += sender.send(self._batches(found, was_there=was_there, is_gone=is_gone))
        return counts

    def _batches(
        self, lookup: KeyLookup, *, was_there: bool, is_gone: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the documents that did or did not exist before, with the version to replace."""
        self._file.seek(0)
        lines = iter(self._file)
        while told := [orjson.loads(line) for line in islice(lines, KEYS_AT_ONCE)]:
            known: dict[str, tuple[str, str]] = {}
            for page in pages(dict.fromkeys(link for link, _, _ in told)):
                known.update(lookup.documents(page))
            rows = []
            for link, version, is_repeated in told:
                before, body = known.get(link, ("-1", None))
                # After a repetition, only a version that no other writer can have made may be
                # undone.
                # A handler that changes nothing answers with the earlier version.
                is_ours = version == int(before) + 1 if is_repeated else version > int(before)
                if is_ours and (link in known) == was_there:
                    rows.append((link, None if is_gone else version, body))
            columns = zip(*rows, strict=True) if rows else ((), (), ())
            types = (pa.string(), pa.int64(), pa.string())
            arrays = [pa.array(each, type_) for each, type_ in zip(columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))
