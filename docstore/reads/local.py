"""Reads that this node answers from its own replica: what it knows to be decided, and how old.

For `committed` and `stale` reads (rule R3), which ask nobody else and may lag behind; and for the
node itself, which wants to know its factories when it starts.
"""

import asyncio
from collections.abc import Iterable

from docstore.documents.view import LogView, ReplicaView
from docstore.documents.write_path.past import (
    KEPT_VERSIONS_MAX,
    first_shown,
    past_answer,
    past_query,
    trimmed_answer,
)
from docstore.model.document import Row
from docstore.model.operation import CURRENT, Answer, Operation
from docstore.model.published import DECLARATIONS
from docstore.model.service import Service
from docstore.storage.store import UNBOUNDED, Corrupt, History, Newest, Store

POLL_S = 0.02
DECLARATIONS_MAX = 100_000


async def read_here(
    view: ReplicaView,
    slot: int,
    store: Store,
    operation: Operation,
    *,
    service: Service | None,
    min_version: int | None,
    timeout_s: float,
) -> tuple[Answer, int | None] | None:
    """Return the answer and its staleness in ms; None where this copy is not whole.

    service: of the document, as far as this node knows it. The staleness is None where it cannot be
    told: nobody is known to own the slot. Waits for `min_version` to arrive here; 503 when it does
    not.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    log = view.logs.get(slot)
    if log is None:
        return None
    while log.full:
        until, cuts = view.readable_until(slot), log.cuts
        if operation.select == CURRENT:
            answer = await _newest(view, slot, store, operation.link)
        else:
            answer = await _older(log, store, operation, until, service)
        if answer is None:
            return None
        if log.cuts != cuts:
            return None  # What is missing is missing here: it leaves this node, or is filled anew.
        version = answer.row.version if answer.row else -1
        if min_version is None or version >= min_version:
            owner = view.owners.owner_of(slot) or ""
            return answer._replace(owner=owner), _staleness_ms(view, slot, owner)
        if loop.time() >= deadline:
            detail = f"version {min_version} has not arrived here in time"
            return Answer(503, "version-not-here", detail), 0
        await asyncio.sleep(POLL_S)
    return None


async def _newest(view: ReplicaView, slot: int, store: Store, link: str) -> Answer | None:
    """Return a document as it is known to be, None if that is damaged."""
    row = view.decided_row(slot, link)
    if row is not None:
        return past_answer(CURRENT, [row], 0)
    [rows] = await store.read([Newest(slot, link, view.readable_until(slot))])
    return None if isinstance(rows, Corrupt) else past_answer(CURRENT, rows, 0)


async def _older(
    log: LogView, store: Store, operation: Operation, until: int, service: Service | None
) -> Answer | None:
    """Return an older version, or many, as of row `until`; None if that is damaged."""
    asked = past_query(log.slot, operation, until)
    rows, newest = await store.read([asked, Newest(log.slot, operation.link, until)])
    if isinstance(rows, Corrupt) or isinstance(newest, Corrupt):
        return None
    first = first_shown(service, newest[0] if newest else None)
    answer = past_answer(operation.select, rows, first)
    if answer.status == 404 and not rows and log.kept:
        everything = History(log.slot, operation.link, None, KEPT_VERSIONS_MAX, until)
        [kept] = await store.read([everything])
        if not isinstance(kept, Corrupt):
            return trimmed_answer(operation.select, kept, first)
    return answer


def _staleness_ms(view: ReplicaView, slot: int, owner: str) -> int | None:
    """Return for how long the owner may have decided more than is known here."""
    if view.owners.owns(slot):
        return 0
    return view.members.silent_ms(owner) if owner not in ("", view.members.me) else None


async def declarations(store: Store, slots: Iterable[int]) -> list[Row]:
    """Return the factories that this disk knows; what is decided otherwise replaces them later.

    A node that starts alone cannot know what is decided, and serves levels 1 and 2 all the same.
    """
    until = dict.fromkeys(slots, UNBOUNDED)
    found = await store.links(DECLARATIONS, "", DECLARATIONS_MAX, until)
    results = await store.read([Newest(slot, link, until[slot]) for slot, link, _ in found])
    return [row for result in results if isinstance(result, list) for row in result]
