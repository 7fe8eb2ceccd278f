"""The assignments of Kafka's consumers, as far as a group's document shows them."""

import struct
from collections.abc import Iterable

from docstore.kafka.decoding import Cursor, Malformed, short_text

VERSION = 0


def partitions_in(assignment: bytes) -> list[tuple[str, int]]:
    """Return (topic, partition) of an assignment; none if it is not one of consumers."""
    cursor, found = Cursor(assignment), []
    try:
        cursor.whole(2)  # The version; later ones only append fields.
        for _ in range(cursor.claim(cursor.whole(4))):
            topic = short_text(cursor) or ""
            found += [(topic, cursor.whole(4)) for _ in range(cursor.claim(cursor.whole(4)))]
    except Malformed:
        return []
    return found


def assignment_of(partitions: Iterable[str]) -> bytes:
    """Return the assignment of `<topic>/<number>` partitions, without data of an assignor."""
    numbers: dict[str, list[int]] = {}
    for each in partitions:
        topic, _, number = each.rpartition("/")
        numbers.setdefault(topic, []).append(int(number))
    written = bytearray(struct.pack(">hi", VERSION, len(numbers)))
    for topic, listed in numbers.items():
        name = topic.encode()
        written += struct.pack(">h", len(name)) + name
        written += struct.pack(f">i{len(listed)}i", len(listed), *listed)
    return bytes(written + struct.pack(">i", -1))
