"""Topics and records of the same three nodes over HTTP."""

import base64
import itertools
import json
import urllib.request
from collections.abc import Sequence
from typing import Any

from docstore.client.local import LocalCluster
from tests.docstore.kafka.clients.tools import Message

_numbers = itertools.count()


def created(group: LocalCluster, partitions: int = 1, **members: Any) -> str:
    """Create a topic with three replicas; return its name."""
    name = f"k{next(_numbers)}"
    asked = {"name": name, "partitions": partitions, "replicationFactor": 3, "minInSync": 2}
    _asked(group, "/core/streams", {**asked, **members}, Prefer="wait=20")
    return name


def posted(group: LocalCluster, topic: str, records: Sequence[dict[str, Any]]) -> None:
    """Append records to the partition that each names, by default 0."""
    body = {"records": [{"partition": 0, **each} for each in records]}
    _asked(group, f"/core/streams/{topic}/records", body)


def deleted_before(group: LocalCluster, topic: str, offset: int) -> None:
    """Delete the records of partition 0 below an offset."""
    asked = {"kind": "DeleteRecordsRequest", "before": offset}
    _asked(group, f"/core/streams/{topic}/partitions/0", asked, "PATCH")


def read(group: LocalCluster, topic: str, partition: int = 0, since: int = 0) -> list[Message]:
    """Return the records of a partition from an offset on, as JSON shows them."""
    path = f"/core/streams/{topic}/partitions/{partition}/records?from="
    found: list[Message] = []
    while True:
        page = _asked(group, f"{path}{since}")
        found += map(_message, page["records"])
        if page["next"] == since:
            return found
        since = page["next"]


def _asked(
    group: LocalCluster, path: str, body: Any = None, method: str | None = None, **headers: str
) -> dict[str, Any]:
    content = None if body is None else json.dumps(body).encode()
    named = {"Content-Type": "application/json", "Accept": "application/json", **headers}
    request = urllib.request.Request(group.urls[0] + path, content, named, method=method)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return dict(json.load(answer))


def _message(record: dict[str, Any]) -> Message:
    key = record.get("key")
    headers = record.get("headers") or {}
    return Message(
        base64.b64decode(record["keyBase64"]) if "keyBase64" in record else _bytes(key),
        None if record.get("tombstone") else _value(record),
        tuple((name, _bytes(value)) for name, value in dict(headers).items()),
        record.get("timestampMicros", 0) // 1000,
        record["offset"],
    )


def _value(record: dict[str, Any]) -> bytes:
    if "valueBase64" in record:
        return base64.b64decode(record["valueBase64"])
    return json.dumps(record["value"], separators=(",", ":")).encode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
