"""Values of `asOf`: a word, a time, a token, or else the name of a snapshot. Pure.

A snapshot must not have a name that is also a word, a time or a token.
"""

from datetime import UTC, datetime, timedelta

from docstore.errors import BadRequest
from docstore.query.cut import is_token

WORDS = ("latest", "barrier", "earliest", "snapshot")
"""Words for cuts, and for the ends of feeds."""
DIGITS_MAX = 17
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment_of(as_of: str) -> int | None:
    """Parse a time: microseconds since 1970, None if the text is none. Raises BadRequest."""
    if as_of.isascii() and as_of.isdecimal() and len(as_of) <= DIGITS_MAX:
        return int(as_of)
    instant = _instant(as_of)
    if instant is None:
        return None
    if instant.tzinfo is None:
        raise BadRequest(f"a time must have a zone, such as Z; got {as_of[:80]!r}")
    return (instant - _EPOCH) // timedelta(microseconds=1)  # A float would be too inexact.


def insist_on_past(as_of: str, now_us: int) -> None:
    """Reject a time in the future, at which each scan would read another cut. Raises BadRequest."""
    moment = moment_of(as_of)
    if moment is not None and moment > now_us:
        raise BadRequest(f"the time {as_of[:80]!r} is yet to come: send a past time, or latest")


def check_snapshot_name(name: str) -> None:
    """Reject a name under which a snapshot could not be read. Raises BadRequest."""
    if name in WORDS:
        meant = "is a reserved word"
    elif (name.isascii() and name.isdecimal()) or _instant(name) is not None:
        meant = "is a time"
    elif is_token(name):
        meant = "begins like a token of a cut"
    else:
        return
    raise BadRequest(f"a snapshot cannot be called {name[:80]!r}, which {meant}")


def _instant(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        return None
