"""Groups of real nodes for tests of backups."""

from collections.abc import Sequence
from pathlib import Path

import msgpack
import orjson

from docstore.client import Client
from docstore.client.local import LocalCluster
from docstore.client.requests import JSON
from docstore.maintenance.backup.restoring import restore
from docstore.maintenance.backup.taking import ROWS
from docstore.model.document import Row
from docstore.reads.blocks import Block, unpack_block


async def rows_of(client: Client, ends: Sequence[int]) -> dict[tuple[int, int], Row]:
    """Return (slot, n) -> row, for all rows of the first node up to a cut."""
    rows: dict[tuple[int, int], Row] = {}
    ranges = [(slot, 0, end) for slot, end in enumerate(ends)]
    after = None
    while True:
        body = orjson.dumps({"ranges": ranges, "after": after})
        _, _, content = await client.request("POST", ROWS, body, JSON, only_reads=True)
        page = msgpack.unpackb(content)
        block: Block = unpack_block(page["block"])
        rows |= {(row.slot, row.n): row for each in block.log for row in each.rows}
        after = page["next"]
        if after is None:
            return rows


def restored_group(
    backups: Path, directory: Path, size: int, slots: int, *settings: str
) -> LocalCluster:
    """Return a group that is not started yet, whose founders have a restored backup."""
    group = LocalCluster(size, directory, ["--slots", str(slots), *settings])
    for node in group.nodes:
        restore(backups, node.data)
    return group
