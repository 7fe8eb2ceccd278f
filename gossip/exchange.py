"""Requests over streams, sent and received: one message each way. A shell.

Large tables are packed, read and merged in turns of the loop, so that nothing else waits.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable

from gossip import wire
from gossip.member import Address
from gossip.messages import KeyChange, StreamMessage, Sync, SyncAnswer
from gossip.protocol.effects import Ask, Reply
from gossip.protocol.events import Answered, Asked, Event, TableBegun, Unanswered
from gossip.security.admission import Opened
from gossip.security.ingress import Ingress
from gossip.security.keyring import Keyring
from gossip.security.rotation import change
from gossip.transport import Transport


class Exchanges:
    """Carries requests and answers between the protocol and the streams."""

    def __init__(
        self, ingress: Ingress, keyring: Keyring | None, feed: Callable[[Event], None]
    ) -> None:
        self.counters: Counter[str] = Counter()
        self._ingress = ingress
        self._keyring = keyring
        self._feed = feed
        self._numbers = itertools.count(1)
        self._replies: dict[int, StreamMessage] = {}

    def reply(self, reply: Reply) -> None:
        """Keep the answer of the protocol until its request is served."""
        self._replies[reply.stream] = reply.message

    async def carry(self, ask: Ask, transport: Transport) -> None:
        """Carry one request to a peer, and its answer, or the lack of one, back."""
        try:
            message = await self.ask(ask.to, ask.message, transport, ask.timeout_s)
        except ConnectionRefusedError:
            self._feed(Unanswered(ask.exchange, is_refused=True))
        except (OSError, EOFError, UnicodeError, OverflowError):  # The last two: a bad seed.
            self._feed(Unanswered(ask.exchange, is_refused=False))
        else:
            self._feed(Answered(ask.exchange, message))

    async def ask(
        self, to: Address, message: StreamMessage, transport: Transport, timeout_s: float
    ) -> StreamMessage:
        """Return the answer to one request. Raises OSError, EOFError."""
        body = await _packed(message)
        answer, opened = await transport.ask(to, body, timeout_s=timeout_s)
        self._prove(opened)
        read = await self._read(answer)
        if read is None:
            raise ConnectionAbortedError(
                "the other side answered with bytes that are not a message"
            )
        return read

    async def serve(self, body: bytes, opened: Opened | None) -> bytes | None:
        """Return the body that answers the request in `body`, or None."""
        self._prove(opened)
        message = await self._read(body)
        if message is None:
            return None
        if isinstance(message, KeyChange):
            return await self._change_key(message, opened)
        stream = next(self._numbers)
        self._feed(Asked(stream, message))
        answer = self._replies.pop(stream, None)
        return await _packed(answer) if answer is not None else None

    async def _change_key(self, message: KeyChange, opened: Opened | None) -> bytes | None:
        if opened is None or self._keyring is None:
            self.counters["key_changes_refused"] += 1
            return None
        return await _packed(await change(self._keyring, message))

    def _prove(self, opened: Opened | None) -> None:
        """Trust the session: it authenticated our random number, so it is no repetition."""
        if opened is not None and self._ingress.authenticator is not None:
            self._ingress.authenticator.prove(opened.session)

    async def _read(self, body: bytes) -> StreamMessage | None:
        """Return the message in `body`; the first parts of a large table are fed on the way."""
        for message, more_follows in wire.decode_in_turns(body):
            allowed = self._ingress.table(message)
            if not more_follows:
                return allowed
            assert isinstance(allowed, Sync | SyncAnswer)
            self._feed(TableBegun(allowed))
            await asyncio.sleep(0)
        self.counters["frames_malformed"] += 1
        return None


async def _packed(message: StreamMessage) -> bytes:
    """Return the body of a message; a large table is packed in turns of the loop."""
    pieces = []
    for piece in wire.encode_in_turns(message):
        pieces.append(piece)
        await asyncio.sleep(0)
    return b"".join(pieces)
