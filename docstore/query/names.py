"""What `asOf` may say: a word, a moment, a token, or else the name of a snapshot. Pure.

A name that could be taken for one of the others would stand for another cut, or for none.
"""

from datetime import UTC, datetime, timedelta

from docstore.errors import BadRequest
from docstore.query.cut import is_token

WORDS = ("latest", "barrier", "earliest", "snapshot")
"""What readers and feeds call their ends."""
DIGITS_MAX = 17
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment_of(as_of: str) -> int | None:
    """Return a moment in microseconds since 1970, None if this is no time. Raises BadRequest."""
    if as_of.isascii() and as_of.isdecimal() and len(as_of) <= DIGITS_MAX:
        return int(as_of)
    instant = _instant(as_of)
    if instant is None:
        return None
    if instant.tzinfo is None:
        raise BadRequest("a time needs its zone, such as Z")
    return (instant - _EPOCH) // timedelta(microseconds=1)  # A float would lose the last one.


def insist_on_past(as_of: str, now_us: int) -> None:
    """Refuse a moment that is yet to come: each scan would read another cut. Raises BadRequest."""
    moment = moment_of(as_of)
    if moment is not None and moment > now_us:
        raise BadRequest(f"{as_of[:80]!r} is yet to come, so that there is no cut of it")


def check_snapshot_name(name: str) -> None:
    """Refuse a name under which a snapshot could not be read. Raises BadRequest."""
    if name in WORDS:
        meant = "has a meaning of its own"
    elif (name.isascii() and name.isdecimal()) or _instant(name) is not None:
        meant = "is a time"
    elif is_token(name):
        meant = "begins as tokens of cuts do"
    else:
        return
    raise BadRequest(f"a snapshot cannot be called {name[:80]!r}, which {meant}")


def _instant(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        return None
