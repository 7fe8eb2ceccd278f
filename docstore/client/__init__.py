"""A small client: documents, bulk, history, and what the group says of itself.

    async with Client(["http://127.0.0.1:8001"]) as store:
        created = await store.put("/notes/a", {"text": "first"})
        await store.put("/notes/a", {"text": "second"}, if_match=created.etag)

A request goes to the first URL that answers. It is sent again elsewhere only when that is safe:
the connection was refused, the answer was 503, which says that nothing was applied, or it only
reads. An update whose answer is lost raises Unanswered. A node that says nothing is waited for
twelve seconds by a read, and thirty by an update.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from docstore.client.client import Client
from docstore.client.documents import Changes, Document
from docstore.client.errors import (
    BadAddress,
    ClientError,
    Closed,
    Differs,
    Lost,
    RequestFailed,
    StateUnusable,
    Unanswered,
    Unreachable,
)
from docstore.client.leases import Lease

if TYPE_CHECKING:
    from docstore.client.consumer import ReadRecord
    from docstore.client.elections import Election, Lock
    from docstore.client.local import LocalCluster
    from docstore.client.producer import Position, Producer
    from docstore.client.voting import Voting

__all__ = [
    "BadAddress",
    "Changes",
    "Client",
    "ClientError",
    "Closed",
    "Differs",
    "Document",
    "Election",
    "Lease",
    "LocalCluster",
    "Lock",
    "Lost",
    "Position",
    "Producer",
    "ReadRecord",
    "RequestFailed",
    "StateUnusable",
    "Unanswered",
    "Unreachable",
    "Voting",
]

_WHEN_ASKED_FOR = {
    "Election": "elections",
    "LocalCluster": "local",
    "Lock": "elections",
    "Position": "producer",
    "Producer": "producer",
    "ReadRecord": "consumer",
    "Voting": "voting",
}
"""Name -> module: what a program that reads and writes documents has no use for."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import what is asked for only now: `docstore get` is over before that would be."""
        if name not in _WHEN_ASKED_FOR:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_WHEN_ASKED_FOR[name]}"), name)
