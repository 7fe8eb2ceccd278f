"""Join by asking for the keys of the rows, in pages, without a scan of the whole factory.

A page has as many keys as a condition may hold (`docstore/query/tokens.py`). A key that cannot be
a link, such as null, is not asked for: no document has it.
"""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from docstore.errors import BadRequest
from docstore.model.paths import canonical_link
from docstore.model.slots import slot_of
from docstore.pipeline.group_client import GroupClient
from docstore.pipeline.planning import snapshot_batches
from docstore.pipeline.values import Formless, texts
from docstore.query.tokens import TEXT_MAX

KEYS_AT_ONCE = 200
_CONDITION = "documentSelfLink in ({})"
_BETWEEN = ", "


class KeyLookup:
    """The documents of one factory at one cut, by key."""

    def __init__(self, urls: Sequence[str], path: str, cut: str) -> None:
        """cut: a token, or latest. Raises GroupError, OSError."""
        self._group = GroupClient(urls)
        self._path = path.rstrip("/")
        self._plan = self._group.plan(cut)

    def beside(self, batch: pa.RecordBatch, key: str) -> pa.RecordBatch:
        """Add to each row the version and the body of its document."""
        links = [link_of(text, self._path) for text in texts(batch.column(key), key)]
        known: dict[str, tuple[str, str]] = {}
        for page in pages(dict.fromkeys(link for link in links if link)):
            known.update(self.documents(page))
        rows = [known.get(link, (None, None)) for link in links]
        versions = pa.array([version for version, _ in rows], pa.string())
        bodies = pa.array([body for _, body in rows], pa.string())
        return pa.RecordBatch.from_arrays(
            [*batch.columns, versions, bodies],
            names=[*batch.schema.names, "lookupVersion", "lookupBody"],
        )

    def documents(self, links: Sequence[str]) -> Iterator[tuple[str, tuple[str, str]]]:
        """Yield each of the links that has a document, with its version and its body."""
        slots = {slot_of(link, len(self._plan["ends"])) for link in links}
        request = {
            "prefix": self._path + "/",
            "where": _CONDITION.format(_BETWEEN.join(map(quoted, links))),
            "columns": ["documentSelfLink", "documentVersion", "body"],
        }
        for batch in snapshot_batches(self._plan, sorted(slots), request, self._group.urls):
            for row in batch.to_pylist():
                yield row["documentSelfLink"], (str(row["documentVersion"]), row["body"])


def link_of(text: str | Formless | None, path: str) -> str:
    """Return the link of a key, "" if no document can have it."""
    if not isinstance(text, str):
        return ""
    link = text if text.startswith("/") else f"{path}/{text}"
    try:
        return canonical_link(link)
    except BadRequest:
        return ""


def pages(links: Iterable[str]) -> Iterator[list[str]]:
    """Split links into pages, each of which fits into one condition."""
    page: list[str] = []
    length = 0
    for link in links:
        more = len(quoted(link)) + len(_BETWEEN)
        if page and (len(page) == KEYS_AT_ONCE or length + more > TEXT_MAX - len(_CONDITION)):
            yield page
            page, length = [], 0
        page.append(link)
        length += more
    if page:
        yield page


def quoted(link: str) -> str:
    """Return a text as a literal of a condition."""
    return "'" + link.replace("'", "''") + "'"
