"""Times in conditions: literals without quotes, and texts of documents that hold a time.

    2026-11-20      2026-11-20T19:00:00Z      2026-11-20T20:00:00.25+01:00

A date is its first instant in UTC. A time needs seconds and a zone; digits after the sixth of a
fraction are ignored. SQLite's own functions accept more forms, round to milliseconds, and read
30 February as 2 March, so the form is checked here, by the same rule in SQL and in Python.

Source: RFC 3339, 5.6.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PARTS = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:T(?P<h>[0-9]{2}):(?P<m>[0-9]{2}):(?P<s>[0-9]{2})(?:\.(?P<fraction>[0-9]+))?"
    r"(?:Z|(?P<sign>[+-])(?P<zh>[0-9]{2}):(?P<zm>[0-9]{2})))?"
)
_DAY = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
_CLOCK = f"{_DAY}T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]"
_DAY_S = "CAST(strftime('%s', substr(t, 1, 10)) AS INTEGER)"
_CLOCK_S = "substr(t, 12, 2) * 3600 + substr(t, 15, 2) * 60 + substr(t, 18, 2)"
_ZONE_S = (
    "(substr(z, 2, 2) * 3600 + substr(z, 5, 2) * 60)"
    " * CASE substr(z, 1, 1) WHEN '-' THEN -1 ELSE 1 END"
)
_IS_TIME = (
    "substr(t, 12, 2) < '24' AND substr(t, 15, 2) < '60' AND substr(t, 18, 2) < '60'"
    " AND substr(z, 2, 2) < '24' AND substr(z, 5, 2) < '60'"
    " AND (f = '' OR f GLOB '.[0-9]*' AND ltrim(substr(f, 2), '0123456789') = '')"
)
_IS_DAY = "t >= '0001' AND date(substr(t, 1, 10), '+0 days') = substr(t, 1, 10)"
_MICROS = (
    f"(SELECT CASE WHEN t GLOB '{_DAY}' THEN {_DAY_S} * 1000000"  # noqa: S608 - our own words
    f" WHEN {_IS_TIME} THEN ({_DAY_S} + {_CLOCK_S} - {_ZONE_S}) * 1000000"
    " + substr(substr(f, 2) || '000000', 1, 6) END"
    " FROM (SELECT t, z, substr(t, 20, length(t) - 19 - length(z)) AS f"
    f" FROM (SELECT t, CASE WHEN t GLOB '{_CLOCK}*Z' THEN 'Z'"
    f" WHEN t GLOB '{_CLOCK}*[+-][0-9][0-9]:[0-9][0-9]' THEN substr(t, -6) END AS z"
    " FROM (SELECT {value} AS t)))"
    f" WHERE {_IS_DAY})"
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time as a literal: microseconds since 1970."""

    micros: int


def micros_of(text: str) -> int | None:
    """Return the microseconds since 1970 of a text, None if it holds no time."""
    match = _PARTS.fullmatch(text)
    if match is None:
        return None
    h, m, s, zh, zm = (int(match[name] or 0) for name in ("h", "m", "s", "zh", "zm"))
    if max(h, zh) > 23 or max(m, s, zm) > 59:
        return None
    try:
        day = datetime.fromisoformat(match["day"]).replace(tzinfo=UTC)
    except ValueError:
        return None
    minutes = (zh * 60 + zm) * (-1 if match["sign"] == "-" else 1)
    seconds = (day - EPOCH) // timedelta(seconds=1) + h * 3600 + m * 60 + s - minutes * 60
    return seconds * 1_000_000 + int(((match["fraction"] or "") + "000000")[:6])


def sql_of(value: str) -> str:
    """Return the SQL of `micros_of`, NULL if it holds no time. value: SQL of a text."""
    return _MICROS.replace("{value}", value)
