"""Messages of a link between two nodes: its opening, and all others; `wire/frames.py` packs them.

A link is one ordered TCP connection per direction. A frame is a msgpack array: the id of the
configuration that the sender counts by, then messages, each `[tag, *fields]`; everything that
one loop turn had to say to a peer goes into one frame. The connection is opened by Hello, so
sender, store, boot and cluster are said once and are true of every frame that follows.

Each machine has its own messages: `wire/messages.py` of documents, `wire/streams_messages.py`,
`wire/sessions_messages.py`. A receiver ignores unknown tags and closes the link on malformed
frames. A later protocol must add its fields and tags at the end.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from docstore.wire.messages import ReplicaMessage
from docstore.wire.sessions_messages import Calling
from docstore.wire.streams_messages import Streaming


class Ask(NamedTuple):
    """One node's services to another's, beside the protocol: listings, digests, resync."""

    id: int
    question: str
    argument: Any


class Told(NamedTuple):
    """Answer to Ask: (True, result), or (False, why not)."""

    id: int
    ok: bool
    result: Any


class Greeting(NamedTuple):
    """On a connection five times a second, and back on it as the answer: I hear you.

    reaches: (peer, protocol) of the connections that the sender has dialled and that answer.
    """

    reaches: Sequence[tuple[str, int]]


class Relayed(NamedTuple):
    """A frame, without its length, that goes through one node to another (rule E4).

    source: "" on the way to the relay, which puts in the peer that it has the frame from.
    """

    source: str
    receiver: str
    frame: bytes


Asking = Ask | Told
OfLinks = Greeting | Relayed
"""Messages of the links to each other, each in a frame of its own."""

Message = ReplicaMessage | Asking | Streaming | Calling


class Hello(NamedTuple):
    """First frame of a connection, both ways: from the one who dialled, then from the other.

    receiver: whom the sender means to speak to, "" if it does not know yet.
    zone: the sender's; founders need each other's. configuration: b"" if it has none yet.
    life: a random number of the process: the same boot twice is two lives of a copied disk.
    seen: (store id, boot, life): the latest life of the receiver's disk that the sender has met.
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
"""The protocol of the first release, whose rows and configurations every version reads."""
PROTOCOL = 1
"""The greatest protocol that this version speaks; see `Spoken`."""


class Spoken(NamedTuple):
    """The protocols that a node speaks, both included.

    A connection has one protocol, the greatest that both nodes know. The dialler proposes its
    greatest. A node that does not know it answers with its own greatest and closes the connection;
    the dialler dials again and proposes that one. After a connection has broken, the dialler
    proposes its greatest again, since the peer may have been upgraded.
    """

    least: int = FIRST_PROTOCOL
    greatest: int = PROTOCOL

    def __contains__(self, protocol: object) -> bool:
        """Say whether a protocol is among them."""
        return isinstance(protocol, int) and self.least <= protocol <= self.greatest
