"""Writes of bulk jobs: each document at most once per batch, however often a task is retried.

A job writes in batches 0, 1, 2, ...; a task of a batch may run twice, at once or one after the
other, with its rows in another order. So an update of a job carries (job, batch, sequence) and its
row keeps them for ever. The owner compares them with the newest version of the document by the same
job:

* an earlier batch: refused, because its task should be dead;
* the same batch: done already, unless its sequence is greater. Another value is refused: it may be
  another row or a repetition, and only the job can tell;
* a later batch: applied, unless both have a sequence and the new one is not greater.

Updates by other writers in between do not matter: a repetition does not undo them. Chunks of a
batch would not help, because a retried task may cut its rows differently.

Source: the (application id, version) of Delta Lake's transactions, kept per document.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from docstore.model.document import Row
from docstore.model.identity import unpack_identity
from docstore.model.operation import Answer, Operation

NO_SEQUENCE = -1
REPEATED = "repeated"
"""Code of the answer to a repeated write."""
VERSIONS_READ_MAX = 1000
"""Most versions of a document that are searched for a job's last write."""


class Writer(NamedTuple):
    """The identity of a job's write. sequence: orders the job's rows with the same link."""

    job: str
    batch: int
    sequence: int = NO_SEQUENCE


class Written(NamedTuple):
    """A job's newest write to one document."""

    batch: int
    sequence: int
    fingerprint: int


Jobs = dict[str, Written]
"""Job -> its newest write."""


@dataclass(frozen=True, slots=True)
class Done:
    """The write, or a later one of the same job, is applied already: answer with success."""


def jobs_of(rows: Iterable[Row]) -> Jobs:
    """Return the jobs that wrote a document, from its versions in ascending order."""
    found: Jobs = {}
    for row in rows:
        if row.operation:
            identity = unpack_identity(row.operation)
            if identity.writer:
                job, batch, sequence = identity.writer
                found[job] = Written(batch, sequence, identity.fingerprint)
    return found


def judged(jobs: Jobs, operation: Operation, fingerprint: int) -> Done | Answer | None:
    """Judge a job's write: Done if it was applied, a refusal, or None if it must be applied."""
    job, batch, sequence = Writer(*operation.writer)
    written = jobs.get(job)
    if written is None:
        return None
    if batch < written.batch:
        detail = f"{job} has written this document in batch {written.batch} already"
        return Answer(409, "stale-batch", detail)
    if sequence == written.sequence and batch == written.batch:
        if fingerprint == written.fingerprint:
            return Done()
        detail = (
            f"batch {batch} of {job} has written another value here: two of its rows have this link"
            " and no sequence says which is the later, or it is repeated with other values"
        )
        return Answer(409, "duplicate-key", detail)
    if NO_SEQUENCE not in (sequence, written.sequence) and sequence <= written.sequence:
        return Done()
    return None
