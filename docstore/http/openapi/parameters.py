"""Parameters of requests, in the query, in headers, in paths; and headers of answers.

A suffix after `@` distinguishes parameters of the same name.
"""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
TEXT: Json = {"type": "string"}
FLAG: Json = {"type": "boolean"}


def number(least: int, most: int | None = None) -> Json:
    """Return the schema of a whole number within bounds."""
    bounds = {"minimum": least} | ({} if most is None else {"maximum": most})
    return {"type": "integer", **bounds}


IN_PATHS: Mapping[str, str] = {
    "id": "The last segment of the document's path",
    "topic": "Name of a topic",
    "partition": "Number of a partition, from 0",
    "offset": "Number of a record in its partition, from 0",
    "name": "Its name",
    "member": "The id under which a process has joined",
    "job": "Name of a job",
    "part": "Name of a part of it",
    "file": "A file of the console",
    "selector": "`default`, `default-1x` or `default-3x`",
    "user": "Name of a user of the access file",
}

IN_QUERIES: Mapping[str, tuple[Json, str]] = {
    "$filter": (TEXT, "A condition in OData's words, such as `rating gt 7`"),
    "$orderby": (TEXT, "Up to four members, each with ` desc` or not"),
    "$select": (TEXT, "Members to show, with commas between"),
    "$limit": (number(1, 10_000), "Documents of a page"),
    "$top": (number(1, 10_000), "Documents in all"),
    "$count": (FLAG, "Tell `documentCount`, exactly"),
    "expand": (TEXT, "If it is there: whole documents"),
    "atomic": (FLAG, "All lines or none, of documents that share a partition key"),
    "asOf": (TEXT, "`latest`, `barrier`, a time that is past, a snapshot's name, a token"),
    "after": (TEXT, "In `nextPageLink`: the last link of the page before"),
    "cursor": (TEXT, "In `nextPageLink` of a query: all of it"),
    "documentVersion": (number(0), "A past version"),
    "at": (TEXT, "The version that was current then: RFC 3339, or microseconds since 1970"),
    "from@versions": (number(0), "Begin at this version, the newest to show"),
    "limit@versions": (number(1, 1_000), "Versions of a page"),
    "documentSelfLink": (TEXT, "Path of the document"),
    "id": (TEXT, "Id of a resynchronisation, as its answer says"),
    "id@subscription": (TEXT, "Id of the subscription, or its link"),
    "target": ({"enum": ["PEER_ID", "KEY_HASH", "ALL"]}, "Which nodes are asked"),
    "path@forwarded": (TEXT, "The page that they show of themselves"),
    "peer": (TEXT, "With PEER_ID: the id of a member"),
    "link@forwarding": (TEXT, "With KEY_HASH: its owner is asked"),
    "key": (TEXT, "With KEY_HASH, instead of a link"),
    "slot": (number(0), "Steps about this slot"),
    "link": (TEXT, "Steps about this document"),
    "partition": (TEXT, "Steps about this partition, `<topic>/<number>`"),
    "after@steps": (number(0), "Steps with a greater number"),
    "limit@steps": (number(1, 2_048), "Number of steps, the newest"),
    "prefix": (TEXT, "A document, or a path and all below it"),
    "since": (TEXT, "`next` of an answer, a cut, `earliest`, `latest`, a time, a snapshot's name"),
    "where": (TEXT, "A condition, as scans have it"),
    "limit@changes": (number(1, 10_000), "Changes of an answer"),
    "path": (TEXT, "The path that it is wanted for"),
    "from@records": (TEXT, "An offset, `beginning`, `end`, `end-10`, a time, `@` and microseconds"),
    "isolation": ({"enum": ["committed", "uncommitted"]}, "Whether to wait for the replicas"),
    "maxBytes": (number(1, 8 << 20), "Bytes of an answer"),
    "maxRecords": (number(1, 100_000), "Records of an answer"),
    "incarnation": (TEXT, "Incarnation of the topic of the position: another one is refused"),
    "waitMs": (number(0, 300_000), "Longest wait for the first record"),
    "acks": ({"enum": ["committed", "leader"]}, "When it is answered"),
    "role": (number(0), "Show the leader of this role only"),
    "drain": (TEXT, "If it is there: answer once others have what it had"),
    "force": (TEXT, "If it is there: fence a member that does not answer"),
}

IN_HEADERS: Mapping[str, tuple[Json, str]] = {
    "If-Match": (TEXT, "Entity tags of which one must be current, or `*`"),
    "If-None-Match": (TEXT, "Entity tags of which none may be current, or `*`"),
    "Idempotency-Key": (TEXT, "A request that is repeated under the same key is done once"),
    "Docstore-Timeout-Ms": (number(1, 60_000), "Answer by then; 10,000 unless said"),
    "Docstore-Consistency": (
        {"enum": ["linearizable", "committed", "stale"]}, "How fresh a read must be",
    ),
    "Docstore-Min-Version": (number(0), "Wait for this version, on whichever node"),
    "Docstore-Quorum": (TEXT, "`all`, or a number of durable copies above the quorum"),
    "Docstore-Lease": (TEXT, "The lease that the document is attached to"),
    "Docstore-Producer": (TEXT, "`ID; epoch=N; sequence=N`: appended once"),
    "Docstore-Token": (TEXT, "Token of a produce: wait until that is committed"),
    "Fence": (TEXT, "`<scope>:<token>`: under which authority it is made"),
    "Last-Event-ID": (TEXT, "Where an event stream goes on"),
    "Prefer": (TEXT, "`wait=<seconds>`, `recreate`"),
}  # fmt: skip

IN_ANSWERS: Mapping[str, tuple[Json, str]] = {
    "ETag": (TEXT, "Tag of this version: for `If-Match` and `If-None-Match`"),
    "Location": (TEXT, "Where what was made is"),
    "Docstore-Version": (number(0), "Its version"),
    "Docstore-Owner": (TEXT, "The node that owns it now"),
    "Docstore-Epoch": (number(0), "The reign of that owner"),
    "Docstore-Replicas": (number(0), "On how many disks it was when this was answered"),
}


def headers() -> dict[str, Json]:
    """Return the headers of answers, by component name."""
    return {
        name: {"description": told, "schema": schema} for name, (schema, told) in IN_ANSWERS.items()
    }


def parameters() -> dict[str, Json]:
    """Return the parameters of requests, by component name."""
    found = {}
    for place, table in (("query", IN_QUERIES), ("header", IN_HEADERS)):
        for key, (schema, told) in table.items():
            name = key.partition("@")[0]
            found[key.replace("$", "_").replace("@", ".")] = {
                "name": name, "in": place, "description": told, "schema": schema,
            }  # fmt: skip
    return found
