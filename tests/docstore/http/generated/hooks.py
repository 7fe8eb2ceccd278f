"""Values of the store's formats for schemathesis, and rules between values.

It loads this module by SCHEMATHESIS_HOOKS, in an environment of its own.
"""

import itertools
import json
import os
from typing import Any
from urllib.request import urlopen

import schemathesis
from hypothesis import strategies as st

with urlopen(f"{os.environ['DOCSTORE_URL']}/core/spark/plan") as answer:
    TOKEN = json.load(answer)["cut"]
MOMENTS = ["2026-01-01T00:00:00Z", "1770000000000000"]
FORMATS = {
    "condition": [
        "rating gt 7",
        "title = 'Solaris' AND year IN (1972)",
        "cast/any(c: c/name eq 'B*')",
    ],
    "cut": ["latest", TOKEN, *MOMENTS],
    "token": [TOKEN],
    "position": ["latest", "earliest", TOKEN, *MOMENTS],
    "event-id": [TOKEN],
    "past": MOMENTS,
    "offset": ["0", "beginning", "end", "end-10", "@1770000000000000", MOMENTS[0]],
    "copies": ["all", "2", "3"],
    "node-page": ["/core/management", "/core/node-groups/default", "/films/stats"],
    "aggregates": ["count(*) as films", "max(year)"],
    "members": ["year", "title, year"],
    "index": ["rating", "year desc, title", "cast[*]/name"],
}
LINES = [
    {"op": "PUT", "link": "/films/st", "body": {"title": "Mirror"}},
    {"op": "PATCH", "link": "/films/st", "body": [{"op": "add", "path": "/year", "value": 1975}]},
    {"op": "DELETE", "link": "/films/st"},
]
BULK = "/core/bulk"
RECORD = b'{"key": "LH100", "value": {"delay": 12}}'
SLOTS = 1024
TIMEOUT_MS = 20_000
"""A deadline that a busy machine meets: before a shorter one a node may answer 503 or 504."""
WAIT_MS = 20
NUMBERS = itertools.count()
LEFT_OUT = {
    "Docstore-Min-Version": "the version may never come: 503",
    "Docstore-Lease": "not with a JSON patch",
    "Docstore-Producer": "not at the path of a topic",
    "If-Match": "not with a KeepAliveRequest",
    "If-None-Match": "not with a KeepAliveRequest",
    "Prefer": "a wait needs an If-None-Match that names one version",
}
"""Header that depends on the rest of its request -> why it is left out."""
RELATED = frozenset(
    {"mode", "sessionMs", "heartbeatMs", "windowMs", "revokeMs", "minInSync", "options", "cleanup"}
)
"""Members that must fit others."""

for name, values in FORMATS.items():
    schemathesis.openapi.format(name, st.sampled_from(values))
schemathesis.openapi.media_type(
    "application/x-ndjson",
    st.lists(st.sampled_from(LINES), min_size=1, max_size=3).map(
        lambda lines: "\n".join(map(json.dumps, lines)).encode()
    ),
)


@schemathesis.hook
def map_headers(context: Any, headers: dict[str, Any]) -> dict[str, Any]:
    """Return headers with a deadline that can be met, without those that do not fit."""
    if headers:
        if "Docstore-Timeout-Ms" in headers:
            headers["Docstore-Timeout-Ms"] = str(TIMEOUT_MS)
        if "Idempotency-Key" in headers:  # Each request needs its own key.
            headers["Idempotency-Key"] = f"{headers['Idempotency-Key'][:99]}{next(NUMBERS)}"
        # Lines of a bulk request are atomic only in factories of partition keys.
        lines = ("Idempotency-Key", "Fence") if context.operation.path == BULK else ()
        for name in (*LEFT_OUT, *lines):
            headers.pop(name, None)
    return headers


@schemathesis.hook
def map_query(context: Any, query: dict[str, Any]) -> dict[str, Any]:
    """Return parameters without those that exclude each other."""
    if query:
        if "waitMs" in query:
            query["waitMs"] = WAIT_MS
        if "slot" in query:
            query["slot"] = str(int(query["slot"]) % SLOTS)
        if "documentVersion" in query:
            query.pop("at", None)
        for name in [each for each in ("slot", "partition", "link") if each in query][1:]:
            del query[name]
        if query.get("target") in ("PEER_ID", "KEY_HASH"):
            query |= {"peer": "n1", "key": "a"}
        if "after" in query:
            return {"after": query["after"]}
        query.pop("cursor", None)  # Only a node can make one.
        if context.operation.path == BULK:
            query.pop("atomic", None)
    return query


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """Return a record for a topic, and other bodies with integers of 64 bits."""
    if not context.operation.path.endswith("/records"):
        return plain(_consistent(body))
    if isinstance(body, dict):  # A partition must be that of the path.
        for each in (body, *body.get("records", ())):
            each.pop("partition", None)
        return plain(body)
    return RECORD


def _consistent(body: Any) -> Any:
    """Return a body without members that exclude each other, and with each slot once."""
    if not isinstance(body, dict):
        return body
    if "cursor" in body:  # Only a node can make one.
        return {"path": "/films"}
    is_grouped = "aggregates" in body or "groupBy" in body
    left_out = {"columns", "skip", "limit"} if is_grouped else set[str]()
    slots: dict[str, list[Any]] = {}
    for name in ("cut", "ranges"):
        if isinstance(body.get(name), list):
            slots[name] = list({each[0]: each for each in body[name]}.values())
    return {name: each for name, each in (body | slots).items() if name not in left_out}


def plain(value: Any) -> Any:
    """Return a value with integers of 64 bits, and strings without U+0000."""
    match value:
        case float() if value.is_integer() and abs(value) <= 1 << 53:
            return int(value)
        case int() if not -(1 << 63) <= value < 1 << 63:
            return 0
        case dict():
            if "beforeMicros" in value:  # The time must be past.
                return {**value, "beforeMicros": int(MOMENTS[1])}
            kept = {name: each for name, each in value.items() if name not in RELATED}
            return {name.replace("\0", ""): plain(each) for name, each in kept.items()}
        case list():
            return [plain(each) for each in value]
        case str():
            return value.replace("\0", "")
    return value
