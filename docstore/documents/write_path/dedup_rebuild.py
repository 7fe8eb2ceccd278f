"""Dedup rebuild: after a restart, an owner finds a retry's row in the history of its document.

An operation's row is a row of its document. When a retry or an Idempotency-Key arrives at an owner
that has not read its log since it started, the owner reads the document's rows from the disk, the
newest first and page by page, until it finds the operation's row or has read all.

The number of rows that it reads is limited. If a retry's row may lie deeper, the answer is 504,
undecided. The same holds for a key, unless all unread rows are older than the life of a key.
"""

from docstore.documents.keys import KEY_LIFE_US
from docstore.documents.log import SlotLog
from docstore.documents.timing import ReplicaConfig
from docstore.model.operation import Operation, undecided
from docstore.storage.store import History

TOO_DEEP = undecided("the first attempt may be too old to be found: read the document")


def is_known(  # Tests replace this.
    log: SlotLog, operation: Operation, now_us: int, *, is_older: bool
) -> bool:
    """Say whether no unread row can be this operation's.

    is_older: the operation was tried before. True also for a duplicate of a first attempt that this
    process has served: after a full disk the process reads its rows again without a new boot.
    """
    known = log.operations.recalled(operation.link)
    if log.operations.since <= log.kept + 1 or known.is_all:
        return True
    if is_older:
        return False  # A time proves nothing: a clock far behind may have stamped the row.
    is_over = log.operations.is_key_over(now_us) or known.oldest_us + KEY_LIFE_US <= now_us
    return not operation.key or is_over


def next_page(log: SlotLog, link: str, config: ReplicaConfig) -> History | None:
    """Return the query for the next older rows of a document; None at the limit."""
    known = log.operations.recalled(link)
    rest = config.memory.recall_rows - known.rows
    if rest <= 0:
        return None
    page = config.sending
    limit, until = min(page.page_rows, rest), log.operations.since - 1
    return History(log.slot, link, known.oldest, limit, until, page.page_bytes)
