"""Parameters of requests, in the query, in headers, in paths; and headers of answers.

A suffix after `@` distinguishes parameters of the same name.
"""

from collections.abc import Mapping
from typing import Any

from docstore.http.console.files import NAMES as CONSOLE_FILES
from docstore.http.openapi.schemas.documents import (
    AS_OF,
    CONDITION,
    FILTER,
    ORDER,
    PAGE,
    SELECT,
    SINCE,
)
from docstore.http.openapi.schemas.shapes import (
    FLAG,
    LARGEST,
    NAME,
    PATH,
    SEGMENT,
    TEXT,
    many,
    one,
    text,
    told,
    whole,
)
from docstore.http.openapi.schemas.streams import TOPIC_NAME

Json = dict[str, Any]
Told = tuple[Json, str]
"""The schema of a parameter, and its description."""
NUMBER = whole(0, LARGEST)
VERSION = whole(0, 1 << 62)
ON = told({"type": "string", "enum": ["", "true", "false"]}, "Without a value it is true")
CURSOR = text(least=1, form="cursor")
ANYTHING = text(least=1)
TAGS = text(r"""^(\*|(W/)?"[!#-~]*"(, ?(W/)?"[!#-~]*")*)$""", least=1)
LINKED = text(r"^(/core/leases/)?[A-Za-z0-9_~@!$&'()*+,;=:-]+$", 1, 512)
KEY = text(r"^[!-+\--~]([ -+\--~]{0,126}[!-+\--~])?$", 1, 128)
"""A key is refused if it has a comma, because a proxy joins two headers with one."""

IN_PATHS: Mapping[str, Told] = {
    "id": (
        text(SEGMENT, 1, 512),
        "The last segment of the document's path; not the name of a utility",
    ),
    "topic": (TOPIC_NAME, "Name of a topic"),
    "partition": (whole(0, 999_999_999), "Number of a partition, from 0"),
    "offset": (VERSION, "Number of a record in its partition, from 0"),
    "name": (NAME, "Its name"),
    "member": (NAME, "The id under which a process has joined"),
    "job": (NAME, "Name of a job"),
    "part": (text("^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$"), "Name of a part of it"),
    "file": (one(*CONSOLE_FILES), "A file of the console"),
    "selector": (one("default", "default-1x", "default-3x"), "How many replicas it shows"),
    "user": (NAME, "Name of a user of the access file"),
}

IN_QUERIES: Mapping[str, Told] = {
    "$filter": (FILTER, "A condition on documents, such as `rating gt 7`"),
    "$orderby": (ORDER, "Up to four members, each with ` desc` or not"),
    "$select": (SELECT, "Members to show, with commas between"),
    "$limit": (PAGE, "Documents of a page"),
    "$top": (PAGE, "Documents in all"),
    "$count": (FLAG, "Tell `documentCount`, exactly"),
    "$explain": (FLAG, "Tell which index was used, and how many documents were looked at"),
    "expand": (ON, "If it is there: whole documents"),
    "atomic": (FLAG, "All lines or none, of documents that share a partition key"),
    "asOf": (AS_OF, "The cut that is read"),
    "after": (PATH, "In `nextPageLink`: the last link of the page before; not with a query"),
    "cursor": (CURSOR, "In `nextPageLink` of a query: all of it"),
    "cursor@queries": (CURSOR, "As `nextPageLink` has it"),
    "documentVersion": (VERSION, "A past version; not with `at`"),
    "at": (
        text(form="past"),
        "The version that was current then, RFC 3339 with a zone, or microseconds since 1970",
    ),
    "from@versions": (VERSION, "Begin at this version, the newest to show"),
    "limit@versions": (whole(1, 1_000), "Versions of a page"),
    "documentSelfLink": (PATH, "Path of the document"),
    "id": (ANYTHING, "Id of a resynchronisation, as its answer says"),
    "id@subscription": (ANYTHING, "Id of the subscription, or its link"),
    "target": (one("PEER_ID", "KEY_HASH", "ALL"), "Which nodes are asked"),
    "path@forwarded": (
        told(text(form="node-page"), "`/core/management`, `/core/node-groups/default`, "
             "`/core/node-selectors/...`, or a path that ends in `/stats`"),
        "The page that they show of themselves; required",
    ),
    "peer": (ANYTHING, "With PEER_ID, which requires it: the id of a member"),
    "link@forwarding": (PATH, "With KEY_HASH: its owner is asked"),
    "key": (ANYTHING, "With KEY_HASH, instead of a link"),
    "slot": (whole(0, 65_535), "Steps about this slot; not with `link` or `partition`"),
    "link": (PATH, "Steps about this document"),
    "partition": (text(r"^[A-Za-z0-9_-]{1,255}/(0|[1-9][0-9]{0,8})$"),
                  "Steps about this partition, `<topic>/<number>`"),
    "after@steps": (VERSION, "Steps with a greater number"),
    "limit@steps": (whole(1, 2_048), "Number of steps, the newest"),
    "prefix": (PATH, "A document, or a path and all below it"),
    "since": (SINCE, "Where the changes begin"),
    "where": (CONDITION, "A condition on documents, such as `rating > 7`"),
    "before": (ON, "With the body of each version before"),
    "prefix@changes": (many(PATH, 64, 1), "Documents, or paths and all below them"),
    "limit@changes": (PAGE, "Changes of an answer"),
    "path": (PATH, "The path of the factory that it is wanted for"),
    "from@records": (
        told(text(form="offset"), "An offset, `beginning`, `end`, `end-10`, a time with its zone, "
             "or `@` and microseconds"),
        "Where the records begin",
    ),
    "isolation": (one("committed", "uncommitted"), "Whether to wait for the replicas"),
    "maxBytes": (whole(1, 8 << 20), "Bytes of an answer"),
    "maxRecords": (whole(1, 100_000), "Records of an answer"),
    "incarnation": (text(), "Incarnation of the topic of the position: another one is refused"),
    "waitMs": (whole(0, 300_000), "Longest wait for the first record"),
    "acks": (one("committed", "leader"), "When it is answered"),
    "role": (VERSION, "Show the leader of this role only; roles have it, groups do not"),
    "drain": (ON, "If it is there: answer once others have what it had"),
    "force": (ON, "If it is there: fence a member that does not answer"),
}  # fmt: skip

REQUIRED = frozenset(
    {"cursor@queries", "documentSelfLink", "id", "id@subscription", "path@forwarded", "target"}
)
"""Parameters in queries without which a request is refused."""

IN_HEADERS: Mapping[str, Told] = {
    "If-Match": (TAGS, "Entity tags of which one must be current, or `*`"),
    "If-None-Match": (TAGS, "Entity tags of which none may be current, or `*`"),
    "Idempotency-Key": (
        KEY,
        "A request that is repeated under the same key is done once. No comma",
    ),
    "Docstore-Timeout-Ms": (whole(1, 60_000), "Answer by then; 10,000 unless said"),
    "Docstore-Consistency": (
        one("linearizable", "committed", "stale"), "How fresh a read must be",
    ),
    "Docstore-Min-Version": (VERSION, "Wait for this version, on whichever node"),
    "Docstore-Quorum": (
        text("^([Aa][Ll][Ll]|[1-9][0-9]{0,2})$", form="copies"),
        "`all`, or a number of durable copies, from the quorum to the number of replicas",
    ),
    "Docstore-Lease": (LINKED, "Id or link of the lease that the document is attached to"),
    "Docstore-Producer": (
        text("^[!-:<-~]{1,128} ?; ?epoch=[0-9]{1,18} ?; ?sequence=[0-9]{1,18}$"),
        "`ID; epoch=N; sequence=N`: appended once. At the path of a partition",
    ),
    "Docstore-Token": (
        text(r"^[0-9]{1,18}\.[0-9]{1,18}$"), "Token of a produce: wait until that is committed",
    ),
    "Fence": (
        text(r"^[!-+\--~]{1,200}:[0-9]{1,18}$"),
        "`<scope>:<token>`: under which authority it is made. Level 3 only",
    ),
    "Last-Event-ID": (text(least=1, form="event-id"), "Where an event stream goes on"),
    "Prefer": (
        text("^(recreate|wait=([1-9]|[1-5][0-9]|60))$"),
        "`wait=<seconds>` (of a GET with `If-None-Match`), `recreate`; others are ignored",
    ),
}  # fmt: skip

IN_ANSWERS: Mapping[str, Told] = {
    "ETag": (TEXT, "Tag of this version: for `If-Match` and `If-None-Match`"),
    "Location": (TEXT, "Where what was made is"),
    "Docstore-Version": (NUMBER, "Its version"),
    "Docstore-Owner": (TEXT, "The node that owns it now"),
    "Docstore-Epoch": (NUMBER, "The reign of that owner"),
    "Docstore-Replicas": (NUMBER, "On how many disks it was when this was answered"),
}


def headers() -> dict[str, Json]:
    """Return the headers of answers, by component name."""
    return {
        name: {"description": said, "schema": schema} for name, (schema, said) in IN_ANSWERS.items()
    }


def parameters() -> dict[str, Json]:
    """Return the parameters of requests, by component name."""
    found = {}
    for place, table in (("query", IN_QUERIES), ("header", IN_HEADERS)):
        for key, (schema, said) in table.items():
            name = key.partition("@")[0]
            found[key_of(key)] = {
                "name": name, "in": place, "description": said, "schema": schema,
                **({"required": True} if key in REQUIRED else {}),
            }  # fmt: skip
    return found


def key_of(name: str) -> str:
    """Return the component name of a parameter: `$` is not allowed there."""
    return name.replace("$", "_").replace("@", ".")
