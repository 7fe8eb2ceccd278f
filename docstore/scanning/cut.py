"""A cut: up to which row every slot belongs to a snapshot, and from where a feed goes on. Pure.

The same token is a snapshot's cut, a feed's offset, and what an audit compares at. It says for each
slot (epoch, n): n rows of the slot's log belong to it, and the last of them was still written, or
confirmed, under that epoch.

Source: the log sequence numbers of change feeds; the epoch in the offset is Couchbase's vbucket
UUID.
"""

import base64
import binascii
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from docstore import json
from docstore.errors import BadRequest

PACKED_BEGINS = "eN"
"""Of every deflated text in base64."""
TOKEN_CHARACTERS_MAX = 1 << 20
JSON_BYTES_MAX = 4 << 20


@dataclass(frozen=True, slots=True)
class Cut:
    """One position for each slot of a group, 0 to slots - 1."""

    cluster: str
    positions: tuple[tuple[int, int], ...]
    """(epoch, n) by slot."""

    @property
    def slots(self) -> int:
        """Return how many slots the group has."""
        return len(self.positions)

    def pack(self) -> str:
        """Return the token: a few kilobytes of URL-safe text."""
        value = {
            "v": 1,
            "c": self.cluster,
            "e": [epoch for epoch, _ in self.positions],
            "s": [n for _, n in self.positions],
        }
        return base64.urlsafe_b64encode(zlib.compress(json.dump(value), 9)).decode()


def is_packed(text: str) -> bool:
    """Say whether a text can only be meant as a token."""
    return text.startswith(PACKED_BEGINS)


def unpack_cut(token: str) -> Cut:
    """Return the cut that a token stands for. Raises BadRequest."""
    try:
        if len(token) > TOKEN_CHARACTERS_MAX:
            raise ValueError
        inflate = zlib.decompressobj()
        plain = inflate.decompress(base64.urlsafe_b64decode(token.encode()), JSON_BYTES_MAX)
        value = json.parse_object(plain)
        epochs, ends = value["e"], value["s"]
        if value["v"] != 1 or len(epochs) != len(ends) or not all(map(_whole, (*epochs, *ends))):
            raise ValueError
        return Cut(str(value["c"]), tuple(zip(epochs, ends, strict=True)))
    except (BadRequest, ValueError, KeyError, TypeError, binascii.Error, zlib.error):
        raise BadRequest("this is not a token of a cut") from None


def cut_of(cluster: str, slots: int, positions: Mapping[int, tuple[int, int]]) -> Cut:
    """Return the cut of a group from (epoch, n) by slot; each slot must be there."""
    return Cut(cluster, tuple(positions[slot] for slot in range(slots)))


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
