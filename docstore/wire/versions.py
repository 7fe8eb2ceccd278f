"""How nodes of two versions speak to each other, so that a group is upgraded node by node.

A connection has one protocol, the greatest that both nodes know. The dialler proposes its greatest.
A node that does not know it answers with its own greatest and closes the connection; the dialler
dials again and proposes that one. After a connection has broken, the dialler proposes its greatest
again, since the peer may have been upgraded.

A protocol must only add: fields behind those of a message, an operation, an answer or a row, and
kinds of messages. A receiver ignores what it does not know (`wire/frames.py`), so every node sends
the same frames to all peers. `tests/compat` keeps what each protocol says.
"""

from typing import NamedTuple

from docstore.wire.link_messages import FIRST_PROTOCOL, PROTOCOL


class Spoken(NamedTuple):
    """The protocols that a node speaks, both included."""

    least: int = FIRST_PROTOCOL
    greatest: int = PROTOCOL

    def __contains__(self, protocol: object) -> bool:
        """Say whether a protocol is among them."""
        return isinstance(protocol, int) and self.least <= protocol <= self.greatest
