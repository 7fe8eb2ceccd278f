"""How nodes of two versions speak with each other, so that a group is upgraded one by one.

A connection has one protocol, the greatest that both sides know. Who dials proposes its greatest.
Who does not know that answers with its own greatest and hangs up, as nodes have done from protocol
5 on; then it is dialled anew, in that. After a connection has broken the greatest is tried again,
since the peer may have been upgraded.

A protocol only ever adds: fields behind those of a message, an operation or a row, and kinds of
messages. What is added is left out of what is sent to a peer that does not know it, and ignored by
whoever reads it. `tests/compat` keeps what each protocol says.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from docstore.wire.link_messages import PROTOCOL, Ask, Greeting, Message, OfLinks, Relayed
from docstore.wire.messages import (
    Answered,
    Confirm,
    Forward,
    Heartbeat,
    Promised,
    Propose,
    Took,
)
from docstore.wire.requests import FetchRecords
from docstore.wire.sessions_messages import Call
from docstore.wire.streams_messages import Produce

LEAST = 5
"""The earliest protocol that is still spoken."""
RELAYS = 11
"""The earliest whose nodes answer greetings and relay frames."""


class Spoken(NamedTuple):
    """The protocols that a node speaks, both included."""

    least: int = LEAST
    greatest: int = PROTOCOL

    def __contains__(self, protocol: object) -> bool:
        """Say whether a protocol is among them."""
        return isinstance(protocol, int) and self.least <= protocol <= self.greatest


Earlier = Callable[[Any], tuple[Any, ...] | None]
"""A message as fields of the protocol before; None: it had no such kind."""


def _forward_of_5(message: Forward) -> tuple[Any, ...]:
    operations = (each._replace(operation=each.operation[:15]) for each in message.operations)
    return (tuple(operations),)


def _ask_of_5(message: Ask) -> tuple[Any, ...]:
    if message.question == FetchRecords.name:
        return message._replace(argument=message.argument[:7])
    return message


def _forward_of_8(message: Forward) -> tuple[Any, ...]:
    operations = (each._replace(operation=each.operation[:16]) for each in message.operations)
    return message._replace(operations=tuple(operations))


def _answered_of_8(message: Answered) -> tuple[Any, ...]:
    answers = [
        (seq, attempt, None if fields is None else fields[:10], proposed)
        for seq, attempt, fields, proposed in message.answers
    ]
    return (message.boot, answers)


BEFORE: Mapping[int, Mapping[type[Any], Earlier]] = {
    RELAYS: {  # Whether a connection carries anything is asked, and frames go through other nodes.
        Greeting: lambda message: None,
        Relayed: lambda message: None,
    },
    10: {  # Instants that were answered for are noted, so that no later owner makes rows of them.
        Confirm: lambda message: message[:2],
        Promised: lambda message: message[:2],
    },
    9: {  # What became of each part of a batch, which is sent when all members know of batches;
        # a request for a node's page, which a node of before says it knows not.
        # Who wants an update goes with it.
        Answered: _answered_of_8,
        Forward: _forward_of_8,
    },
    8: {  # A full disk is told of; requests of queries, which a node of before says it knows not.
        Heartbeat: lambda message: message[:6],
    },
    7: {  # A message of rows is acknowledged whole, by its number.
        Propose: lambda message: message[:1],
        Took: lambda message: None,
    },
    6: {  # The trace context of a request goes with it.
        Forward: _forward_of_5,
        Ask: _ask_of_5,
        Call: lambda message: message[:5],
        Produce: lambda message: message[:8],
    },
}
"""Protocol -> what it has added to messages, taken away again for one before it."""


def fields_for(protocol: int, message: Message | OfLinks) -> tuple[Any, ...] | None:
    """Return a message's fields as a peer of some protocol knows them; None if it does not."""
    fields: tuple[Any, ...] | None = message
    for later in range(PROTOCOL, protocol, -1):
        earlier = BEFORE.get(later, {}).get(type(message))
        if earlier is not None and fields is not None:
            fields = earlier(fields)
    return fields
