"""A program on a client that openapi-python-client generated from /core/openapi.json.

`python play.py URL...` sends a PUT, PATCH, bulk and produce to three nodes, and prints the answers
as JSON for `test_generated_clients.py`. It imports the generated package `store`, so it runs in the
environment where that was generated.
"""

import json
import sys
from io import BytesIO

from store import Client
from store.api.films import get_films_id, patch_films_id, put_films_id
from store.api.many_documents import post_core_bulk
from store.api.streams import get_core_streams_topic_partitions_partition_records as read
from store.api.streams import post_core_streams_topic_records as produce
from store.models import Films, JsonPatch, MergePatch, NewRecord, SeveralRecords
from store.types import File

LINES = b"""{"op": "PUT", "link": "/films/b1", "body": {"title": "Mirror"}}
{"op": "POST", "link": "/films/b2", "body": {"year": 1979}}
"""


def play(urls: list[str]) -> dict[str, object]:
    first, second, third = (Client(base_url=url) for url in urls)
    made = put_films_id.sync_detailed(
        "python", client=first, body=Films("Solaris", year=1971), idempotency_key="a key"
    )
    patched = patch_films_id.sync_detailed(
        "python",
        client=second,
        body=MergePatch.from_dict({"year": 1972}),
        if_match=made.headers["ETag"],
    )
    stale = patch_films_id.sync_detailed(
        "python",
        client=third,
        body=MergePatch.from_dict({"year": 0}),
        if_match=made.headers["ETag"],
    )
    refused = patch_films_id.sync_detailed("python", client=first, body=JsonPatch())
    done = post_core_bulk.sync_detailed(client=third, body=File(BytesIO(LINES)))
    record = NewRecord.from_dict({"key": "LH100", "value": {"delay": 12}})
    appended = [
        produce.sync_detailed("flights", client=first, body=record),
        produce.sync_detailed("flights", client=second, body=SeveralRecords([record, record])),
    ]
    found = get_films_id.sync("python", client=third)
    records = read.sync_detailed("flights", 0, client=third)
    return {
        "statuses": [each.status_code for each in (made, patched, stale, refused, *appended)],
        "outcome": stale.parsed.outcome,
        "counts": [each.parsed.count for each in appended],
        "film": found.to_dict(),
        "lines": [json.loads(line) for line in done.content.splitlines()],
        "records": len(records.content.splitlines()) - 1,
    }


if __name__ == "__main__":
    print(json.dumps(play(sys.argv[1:])))
