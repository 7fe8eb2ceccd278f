"""Reads that this node answers from its own replica, with their staleness (rule R3).

They serve `committed` and `stale` reads, which ask no other node and may lag behind, and the node
itself, which reads its factories when it starts.
"""

import asyncio
from collections.abc import Iterable

from docstore.documents.view import LogView, ReplicaView
from docstore.documents.write_path import past
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
    """Return the answer and its staleness in ms; None where this replica is incomplete.

    service: of the document, as far as this node knows it.
    min_version: version to wait for; the answer is 503 if it does not arrive in time.
    The staleness is None where this node knows no owner of the slot.
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
            return None  # The slot is leaving this node, or is being refilled.
        version = answer.row.version if answer.row else -1
        if min_version is None or version >= min_version:
            owner = view.owners.owner_of(slot) or ""
            return answer._replace(owner=owner), _staleness_ms(view, slot, owner)
        if loop.time() >= deadline:
            detail = f"version {min_version} did not arrive at this node in time: ask again"
            return Answer(503, "version-not-here", detail), 0
        await asyncio.sleep(POLL_S)
    return None


async def _newest(view: ReplicaView, slot: int, store: Store, link: str) -> Answer | None:
    """Return the newest decided version, None if it is damaged."""
    row = view.decided_row(slot, link)
    if row is not None:
        return past.past_answer(CURRENT, [row], 0)
    [rows] = await store.read([Newest(slot, link, view.readable_until(slot))])
    return None if isinstance(rows, Corrupt) else past.past_answer(CURRENT, rows, 0)


async def _older(
    log: LogView, store: Store, operation: Operation, until: int, service: Service | None
) -> Answer | None:
    """Return older versions as of row `until`; None if one of them is damaged."""
    asked = past.past_query(log.slot, operation, until)
    rows, newest = await store.read([asked, Newest(log.slot, operation.link, until)])
    if isinstance(rows, Corrupt) or isinstance(newest, Corrupt):
        return None
    first = past.first_shown(service, newest[0] if newest else None)
    answer = past.past_answer(operation.select, rows, first)
    if answer.status == 404 and not rows and log.kept:
        everything = History(log.slot, operation.link, None, past.KEPT_VERSIONS_MAX, until)
        [kept] = await store.read([everything])
        if not isinstance(kept, Corrupt):
            return past.trimmed_answer(operation.select, kept, first)
    return answer


def _staleness_ms(view: ReplicaView, slot: int, owner: str) -> int | None:
    """Return for how many ms this copy may have lacked rows that the owner decided, at most."""
    if view.owners.owns(slot):
        return 0
    return view.members.silent_ms(owner) if owner not in ("", view.members.me) else None


async def declarations(store: Store, slots: Iterable[int]) -> list[Row]:
    """Return the declarations on this disk; decided ones replace them later.

    A node that starts alone knows nothing decided, but must serve levels 1 and 2.
    """
    until = dict.fromkeys(slots, UNBOUNDED)
    found = await store.links(DECLARATIONS, "", DECLARATIONS_MAX, until)
    results = await store.read([Newest(slot, link, until[slot]) for slot, link, _ in found])
    return [row for result in results if isinstance(result, list) for row in result]
