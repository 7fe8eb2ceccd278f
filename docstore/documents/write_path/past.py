"""Queries and answers of reads of the past."""

from docstore.model.document import Row
from docstore.model.operation import Answer, Operation, Select
from docstore.model.service import Service
from docstore.storage.store import AsOf, History, Newest, OfLog, Version

KEPT_VERSIONS_MAX = 1 << 20
"""Limit of a query for all kept versions of a document."""


def past_query(slot: int, operation: Operation, until: int) -> OfLog:
    """Return the query for the past that an operation selects, up to row `until`."""
    link = operation.link
    match operation.select:
        case ("version", number):
            return Version(slot, link, number, until)
        case ("at", instant_us):
            return AsOf(slot, link, instant_us, until)
        case ("history", before, limit):
            return History(slot, link, before, limit, until)
        case _:
            return Newest(slot, link, until)


def instant_of(operation: Operation) -> int:
    """Return the instant that a read asks for, 0 if none."""
    select = operation.select
    return select[1] if select[0] == "at" else 0


def yet_to_come(at_us: int, now_us: int) -> Answer:
    """Return the refusal of a read at an instant in the future, whose answer would still change."""
    detail = f"at: {at_us} is yet to come; the clock here shows {now_us} microseconds since 1970"
    return Answer(400, "malformed", detail)


def first_shown(service: Service | None, newest: Row | None) -> int:
    """Return the first version that is shown, given the newest decided row."""
    if service is None or newest is None or not service.options.versions:
        return 0
    return newest.version - service.options.versions + 1


def past_answer(select: Select, rows: list[Row], first: int) -> Answer:
    """Return the answer to a read of the past; 404 if the document was deleted at the instant.

    first: the first version that is shown; older versions may still be kept.
    """
    if select[0] == "history":
        shown = [row for row in rows if row.version >= first]
        # An empty page: compaction has removed the versions that its reader wanted.
        return Answer(200 if rows else 404, "" if rows else "not-found", rows=shown)
    if not rows:
        return Answer(404, "not-found")
    if rows[0].version < first:
        return _trimmed(first)
    if rows[0].deleted and select[0] != "version":
        return Answer(404, "not-found", row=rows[0])
    return Answer(200, row=rows[0])


def trimmed_answer(select: Select, rows: list[Row], first: int) -> Answer:
    """Return the answer to a read of the past that found nothing. rows: the kept versions."""
    oldest = max(first, rows[-1].version) if rows else 0
    if oldest:  # Older versions existed.
        match select:
            case ("at", _):
                return _trimmed(oldest)
            case ("version", asked) if asked <= oldest:
                return _trimmed(oldest)
    return Answer(404, "not-found")


def _trimmed(oldest: int) -> Answer:
    detail = f"trimmed: version {oldest} is the earliest that is kept"
    return Answer(410, "version-trimmed", detail)
