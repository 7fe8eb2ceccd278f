"""Rows for tests: a writer that numbers them as an owner does."""

from dataclasses import dataclass, field
from typing import Any

from docstore.model.document import Row, chain_digest
from docstore.storage.store import Append, Store

FOR_EVER = 1 << 60
"""An `until` beyond every row."""


@dataclass
class Author:
    """Numbers the rows and versions of some slots."""

    ends: dict[int, int] = field(default_factory=dict)
    newest: dict[str, Row] = field(default_factory=dict)

    def row(self, slot: int, link: str, **fields: Any) -> Row:
        """Return the next row of the slot and of the link."""
        before = self.newest.get(link)
        n = self.ends[slot] = self.ends.get(slot, 0) + 1
        version = before.version + 1 if before else 0
        state = fields.pop("state", b'{"n":%d}' % n)
        deleted = fields.pop("deleted", False)
        row = Row(
            slot=slot,
            n=n,
            epoch=fields.pop("epoch", 1),
            owner=fields.pop("owner", "n1"),
            link=link,
            version=version,
            action="DELETE" if deleted else "PUT",
            updated_us=fields.pop("updated_us", 1000 * n),
            deleted=deleted,
            signature=b"\x00signed",
            operation=b"\xffid",
            digest=chain_digest(before.digest if before else b"", link, version, deleted, state),
            state=state,
        )
        assert not fields
        self.newest[link] = row
        return row

    async def append(self, store: Store, slot: int, *links: str, **fields: Any) -> list[Row]:
        """Commit a row for each of `links`, in one batch, and return the rows."""
        rows = [self.row(slot, link, **fields) for link in links]
        await store.commit([Append(rows)])
        return rows
