"""Cuts: a position in the log of each slot, for snapshots and feeds. Pure.

A token of a cut names a snapshot, the offset of a feed, or the rows that an audit compares. A
position is (epoch, n): the first n rows of the slot's log, the last of which was written, or
confirmed, under that epoch. The feed of one document needs one slot, and its token has only that.

A token holds the differences to the median position, shuffled: first the lowest bytes of all slots,
then the second lowest, and so on. Slots have similar sizes, so the upper bytes are nearly all zero
and deflate to nothing. A token is a third smaller than JSON, in a fifth of the time: 1.2 characters
a slot where slots have some thousand rows.

Source: the log sequence numbers of change feeds; the epoch in the offset is Couchbase's vbucket
UUID; shuffled bytes as in Blosc and HDF5.
"""

import base64
import binascii
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from docstore.errors import BadRequest

BEGINS = "~"
"""The first character of each token."""
SEALED = "~~"
"""Prefix of a token that is encrypted for nodes (`reads/positions.py`)."""

TOKEN_CHARACTERS_MAX = 1 << 20
CHARACTERS_A_SLOT = 4
"""Characters a slot reserved for a token in a URL or a header: twice its size."""
SLOTS_MAX = 65_536
NUMBER_MAX = (1 << 63) - 1

_HEAD = struct.Struct("<III BQ BQ")
"""Number of slots of the group; first slot, and number of positions; width in bytes and median of
the epochs, then of the row numbers."""
_CLUSTER_BYTES_MAX = 1024
_PLAIN_BYTES_MAX = _HEAD.size + SLOTS_MAX * 16 + _CLUSTER_BYTES_MAX

Position = tuple[int, int]
"""(epoch, n)."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A position for each slot of a group, or for one slot."""

    cluster: str
    positions: tuple[Position, ...]
    """Positions by slot, from `first` on."""
    first: int = 0
    of: int = 0
    """Number of slots of the group; 0 if it equals the number of positions."""

    @property
    def slots(self) -> int:
        return self.of or len(self.positions)

    @property
    def is_whole(self) -> bool:
        """Say whether the cut has a position for every slot."""
        return len(self.positions) == self.slots

    def by_slot(self) -> dict[int, Position]:
        return dict(enumerate(self.positions, self.first))

    def only(self, slot: int) -> "Cut":
        """Return the cut of one slot. Raises KeyError if it has no position."""
        return _part(self.cluster, (self.by_slot()[slot],), slot, self.slots)

    def moved(self, positions: Mapping[int, Position]) -> "Cut":
        """Return the cut with other positions of some slots."""
        reached = tuple(positions.get(slot, was) for slot, was in self.by_slot().items())
        return Cut(self.cluster, reached, self.first, self.of)

    def pack(self) -> str:
        """Return the token: about 80 characters for one slot, one or two a slot for all slots."""
        epochs, ends = zip(*self.positions, strict=True)
        epoch_middle, epoch_planes = _shuffled(epochs)
        n_middle, n_planes = _shuffled(ends)
        head = _HEAD.pack(
            self.slots, self.first, len(self.positions),
            len(epoch_planes), epoch_middle, len(n_planes), n_middle,
        )  # fmt: skip
        deflate = zlib.compressobj(9, wbits=-zlib.MAX_WBITS, strategy=zlib.Z_RLE)
        packed = b""
        for part in (head, *epoch_planes, *n_planes, self.cluster.encode()):
            # Each plane is a block of its own, since their byte frequencies differ.
            packed += deflate.compress(part) + deflate.flush(zlib.Z_BLOCK)
        packed += deflate.flush()
        return BEGINS + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def is_token(text: str) -> bool:
    return text.startswith(BEGINS)


def unpack_cut(token: str) -> Cut:
    """Parse the token of a whole cut. Raises BadRequest."""
    cut = unpack_part(token)
    if not cut.is_whole:
        raise BadRequest(
            "the token must be of a cut of a group; this one is of the feed of one document"
        )
    return cut


def unpack_part(token: str) -> Cut:
    """Parse the token of a cut of all slots or of one. Raises BadRequest."""
    try:
        if len(token) > TOKEN_CHARACTERS_MAX or not token.startswith(BEGINS):
            raise ValueError
        return _unpacked(token.removeprefix(BEGINS))
    except (ValueError, struct.error, binascii.Error, zlib.error):
        raise BadRequest(
            "the token of a cut is damaged: send one that a node returned, unchanged"
        ) from None


def _unpacked(text: str) -> Cut:
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    packed = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
    plain = inflate.decompress(packed, _PLAIN_BYTES_MAX)
    slots, first, count, epoch_width, epoch_middle, n_width, n_middle = _HEAD.unpack_from(plain)
    between = _HEAD.size + count * epoch_width
    behind = between + count * n_width
    if not inflate.eof or inflate.unused_data or slots > SLOTS_MAX or first + count > slots:
        raise ValueError
    epochs = _numbers(plain[_HEAD.size : between], epoch_width, epoch_middle)
    ends = _numbers(plain[between:behind], n_width, n_middle)
    if len(epochs) != count:
        raise ValueError
    positions = tuple(zip(epochs, ends, strict=True))
    return _part(plain[behind:].decode(), positions, first, slots)


def _part(cluster: str, positions: tuple[Position, ...], first: int, slots: int) -> Cut:
    is_whole = len(positions) == slots
    return Cut(cluster, positions) if is_whole else Cut(cluster, positions, first, slots)


def cut_of(cluster: str, slots: int, positions: Mapping[int, Position]) -> Cut:
    return Cut(cluster, tuple(positions[slot] for slot in range(slots)))


def _shuffled(values: Sequence[int]) -> tuple[int, list[bytes]]:
    """Return the median, and the differences to it in planes: the lowest bytes first."""
    middle = sorted(values)[len(values) // 2]
    # Numbers below the median become odd, others even, so that small differences stay small.
    folded = [2 * (n - middle) if n >= middle else 2 * (middle - n) - 1 for n in values]
    width = max(1, -(-max(folded).bit_length() // 8))
    whole = struct.pack(f"<{len(folded)}Q", *folded)
    return middle, [whole[at::8] for at in range(width)]


def _numbers(planes: bytes, width: int, middle: int) -> list[int]:
    """Reverse `_shuffled`. Raises ValueError."""
    count = len(planes) // width if 0 < width <= 8 else 0
    if not count:
        raise ValueError
    whole = bytearray(8 * count)
    for at in range(width):
        whole[at::8] = planes[at * count : (at + 1) * count]
    folded = struct.unpack(f"<{count}Q", whole)
    values = [middle - (n + 1) // 2 if n & 1 else middle + n // 2 for n in folded]
    if min(values) < 0 or max(values) > NUMBER_MAX:
        raise ValueError
    return values
