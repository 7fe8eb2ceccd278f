"""Whole frames of a stream, which an agent writes and reads in turns."""

from dataclasses import replace

from gossip import wire
from gossip.messages import FRAME_HEADER_BYTES, StreamMessage, Sync, SyncAnswer


def encode_frame(message: StreamMessage) -> bytes:
    body = b"".join(wire.encode_in_turns(message))
    return len(body).to_bytes(FRAME_HEADER_BYTES, "big") + body


def decode_frame(body: bytes) -> StreamMessage | None:
    """Return the message in the body of a frame, None if it is not valid."""
    parts = list(wire.decode_in_turns(body))
    if not parts or parts[-1][1]:
        return None
    message, _ = parts[-1]
    if isinstance(message, Sync | SyncAnswer):
        tables = [part for part, _ in parts if isinstance(part, Sync | SyncAnswer)]
        return replace(message, members=tuple(each for part in tables for each in part.members))
    return message
