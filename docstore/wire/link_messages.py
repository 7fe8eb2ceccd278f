"""Messages of a link between two nodes; `wire/frames.py` packs them.

A link is one ordered TCP connection per direction. A frame is a msgpack array: the id of the
configuration by which the sender counts quorums, then messages, each `[tag, *fields]`. All messages
of one loop turn to a peer go into one frame. Hello opens the connection, so its sender, store, boot
and cluster apply to every frame that follows.

Each machine has its own messages: `wire/messages.py` of documents, `wire/streams_messages.py`,
`wire/sessions_messages.py`.

A protocol must only add: trailing fields of a message, an operation, an answer or a row, and kinds
of messages. A receiver ignores unknown ones, so every node sends the same frames to all peers. It
closes the link on malformed frames. `tests/compat` keeps the frames of each protocol.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from docstore.wire.messages import ReplicaMessage
from docstore.wire.sessions_messages import Calling
from docstore.wire.streams_messages import Streaming


class RpcRequest(NamedTuple):
    """Request between the services of two nodes: listings, digests, resync."""

    id: int
    question: str
    argument: Any


class RpcReply(NamedTuple):
    """Answer to RpcRequest. result: the reason if not `ok`."""

    id: int
    ok: bool
    result: Any


class Greeting(NamedTuple):
    """Keep-alive, five times a second, and its answer on the same connection.

    reaches: (peer, protocol) of the sender's outgoing connections that answer.
    """

    reaches: Sequence[tuple[str, int]]


class Relayed(NamedTuple):
    """A frame, without its length, that one node relays to another (rule E4).

    source: "" on the way to the relay, which fills in the peer that sent it.
    """

    source: str
    receiver: str
    frame: bytes


Asking = RpcRequest | RpcReply
OfLinks = Greeting | Relayed
"""Messages between the links themselves, each in a frame of its own."""

Message = ReplicaMessage | Asking | Streaming | Calling


class Hello(NamedTuple):
    """First frame of a connection in each direction; the dialling node sends first.

    receiver: the node that the sender means to reach, "" if unknown. zone: the sender's, which
    founders need. configuration: the one in use, b"" if there is none yet. life: a random number of
    the process; two lives with one boot reveal a copied disk. seen: (store id, boot, life), the
    latest life of the receiver's disk that the sender has met.
    """

    protocol: int
    cluster_id: str
    sender: str
    store_id: str
    boot: int
    receiver: str
    zone: str
    configuration: bytes
    life: int
    seen: tuple[str, int, int]


FIRST_PROTOCOL = 1
"""Protocol of the first release. Every version reads its rows and configurations."""
PROTOCOL = 1
"""The greatest protocol that this software version speaks; see `ProtocolRange`."""


class ProtocolRange(NamedTuple):
    """The range of protocols that a node speaks, both ends included.

    A connection has one protocol, the greatest that both nodes know. The dialler proposes its
    greatest. A node that does not know this protocol answers with its own greatest and closes the
    connection; the dialler dials again and proposes that one. After a connection has broken, the
    dialler proposes its greatest again, since the peer may have been upgraded.
    """

    least: int
    greatest: int

    def __contains__(self, protocol: object) -> bool:
        return isinstance(protocol, int) and self.least <= protocol <= self.greatest
