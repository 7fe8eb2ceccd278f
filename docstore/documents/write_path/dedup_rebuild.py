"""After a restart: what older rows a repetition may have made, read back by document.

An operation's row is a row of its document. So when a retry, or an Idempotency-Key, arrives at an
owner that has not read its log since it started, the document's rows are read from the disk, the
newest first and page by page, until one is the operation's, or there are no more.

A document with very many versions is read back only so far. A retry that may lie deeper is told
that nobody knows; so is a key, unless all that was not read is older than keys live.
"""

from docstore.documents.log import SlotLog
from docstore.documents.operations import KEY_LIFE_US
from docstore.documents.timing import ReplicaConfig
from docstore.model.operation import Answer, Operation
from docstore.storage.store import History

TOO_DEEP = Answer(
    504, "undecided", "this operation is too old to be told from a repetition", unknown=True
)


def is_known(  # Seam.
    log: SlotLog, operation: Operation, now_us: int, *, is_older: bool
) -> bool:
    """Say whether nothing that was not read can be what this operation has made.

    is_older: it was tried before. So was the echo of a first attempt that this process has served,
    and whose row it has read from the disk again since: a disk that fills is no new start.
    """
    known = log.operations.recalled(operation.link)
    if log.operations.since <= log.kept + 1 or known.is_all:
        return True
    if is_older:
        return False  # By no clock: a row may have been stamped by one that is far behind.
    return not operation.key or known.oldest_us + KEY_LIFE_US <= now_us


def next_page(log: SlotLog, link: str, config: ReplicaConfig) -> History | None:
    """Return the query for the next older rows of a document; None when that is deep enough."""
    known = log.operations.recalled(link)
    rest = config.memory.recall_rows - known.rows
    if rest <= 0:
        return None
    page = config.sending
    limit, until = min(page.page_rows, rest), log.operations.since - 1
    return History(log.slot, link, known.oldest, limit, until, page.page_bytes)
