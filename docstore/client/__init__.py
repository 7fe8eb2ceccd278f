"""A small client for documents, bulk operations, history, and the state of the group.

    async with Client(["http://127.0.0.1:8001"]) as store:
        created = await store.put("/notes/a", {"text": "first"})
        await store.put("/notes/a", {"text": "second"}, if_match=created.etag)

A request goes to the first URL that answers. It is sent to another node only when that is safe: if
the connection was refused, if the answer was 503, which means that nothing was applied, if the
request only reads, or if it is an update of documents, whose key lets nodes recognise the
repetition. All attempts share one deadline, `timeout_s`. An update whose outcome stays unknown
raises Unanswered.

Refusals are kinds of RequestFailed: Invalid, NotAllowed, NotFound, Conflict, PreconditionFailed,
Unavailable, and Undecided, which is an Unanswered too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from docstore.client.client import Client
from docstore.client.documents import Document
from docstore.client.errors import (
    BadAddress,
    ClientError,
    Closed,
    Conflict,
    Differs,
    Invalid,
    Lost,
    NotAllowed,
    NotFound,
    PreconditionFailed,
    RequestFailed,
    StateUnusable,
    Unanswered,
    Unavailable,
    Undecided,
    Unreachable,
)
from docstore.client.feed import Change, Changes
from docstore.client.leases import Lease
from docstore.client.queries import Found

if TYPE_CHECKING:
    from docstore.client.consumer import ReadRecord
    from docstore.client.elections import Election, Lock
    from docstore.client.local import LocalCluster
    from docstore.client.producer import Position, Producer
    from docstore.client.voting import Voting

__all__ = [
    "BadAddress",
    "Change",
    "Changes",
    "Client",
    "ClientError",
    "Closed",
    "Conflict",
    "Differs",
    "Document",
    "Election",
    "Found",
    "Invalid",
    "Lease",
    "LocalCluster",
    "Lock",
    "Lost",
    "NotAllowed",
    "NotFound",
    "Position",
    "PreconditionFailed",
    "Producer",
    "ReadRecord",
    "RequestFailed",
    "StateUnusable",
    "Unanswered",
    "Unavailable",
    "Undecided",
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
"""Name -> module, for the names that are imported at their first use."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import the module of a name at its first use, so that commands start quickly."""
        if name not in _WHEN_ASKED_FOR:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_WHEN_ASKED_FOR[name]}"), name)
