"""A small client: documents, bulk, history, and what the group says of itself.

    async with Client(["http://127.0.0.1:8001"]) as store:
        created = await store.put("/notes/a", {"text": "first"})
        await store.put("/notes/a", {"text": "second"}, if_match=created.etag)

A request goes to the first URL that answers. It is sent again elsewhere only when that is safe:
the connection was refused, the answer was 503, which says that nothing was applied, or it only
reads. An update whose answer is lost raises Unanswered.
"""

from docstore.client.client import Changes, Client, Document
from docstore.client.errors import BadAddress, ClientError, RequestFailed, Unanswered, Unreachable
from docstore.client.local import LocalCluster

__all__ = [
    "BadAddress",
    "Changes",
    "Client",
    "ClientError",
    "Document",
    "LocalCluster",
    "RequestFailed",
    "Unanswered",
    "Unreachable",
]
