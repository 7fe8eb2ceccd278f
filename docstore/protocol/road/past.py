"""Reads of the past: what to ask the disk, and what its rows say."""

from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from docstore.storage.store import AsOf, History, Newest, OfLog, Version

KEPT_VERSIONS_MAX = 1 << 20
"""All that is kept of a document."""


def past_query(slot: int, operation: Operation, until: int) -> OfLog:
    """Return the query for the past that an operation selects, up to row `until`."""
    kind, *arguments = operation.select
    link = operation.link
    if kind == "version":
        return Version(slot, link, arguments[0], until)
    if kind == "at":
        return AsOf(slot, link, arguments[0], until)
    if kind == "history":
        return History(slot, link, arguments[0], arguments[1], until)
    return Newest(slot, link, until)


def past_answer(select: object, rows: list[Row]) -> Answer:
    """Return the answer to a read of the past; a deleted state at an instant is a 404."""
    assert isinstance(select, tuple | list)
    if select[0] == "history":
        return Answer(200 if rows else 404, "" if rows else "not-found", rows=rows)
    if not rows:
        return Answer(404, "not-found")
    if rows[0].deleted and select[0] != "version":
        return Answer(404, "not-found", row=rows[0])
    return Answer(200, row=rows[0])


def trimmed_answer(select: object, rows: list[Row]) -> Answer:
    """Return the answer to a read of the past that found nothing. rows: what is kept."""
    assert isinstance(select, tuple | list)
    oldest = rows[-1] if rows else None
    if oldest is None or oldest.version == 0 or select[0] == "history":
        return Answer(404, "not-found")
    asked = oldest.version if select[0] == "at" else select[1]
    # Before the oldest of all that is kept there were others, if its number is not the first.
    if asked <= oldest.version:
        detail = f"let go of: version {oldest.version} is the earliest that is kept"
        return Answer(410, "version-trimmed", detail)
    return Answer(404, "not-found")
