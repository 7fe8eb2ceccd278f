"""Reads that this node answers from its own replica: what it knows to be decided, and how old.

For `committed` and `stale` reads (rule R3), which ask nobody else and may lag behind; and for the
node itself, which wants to know its factories when it starts.
"""

import asyncio
from collections.abc import Mapping

from docstore.model.document import Row
from docstore.model.operation import CURRENT, Answer, Operation
from docstore.protocol.core import Core
from docstore.protocol.log import SlotLog
from docstore.protocol.published import DECLARATIONS
from docstore.protocol.road.past import (
    KEPT_VERSIONS_MAX,
    past_answer,
    past_query,
    trimmed_answer,
)
from docstore.protocol.tenure import Phase
from docstore.storage.store import UNBOUNDED, Corrupt, History, Newest, Result, Store

POLL_S = 0.02
DECLARATIONS_MAX = 100_000


async def read_here(
    core: Core,
    slot_log: SlotLog,
    store: Store,
    operation: Operation,
    *,
    min_version: int | None,
    timeout_s: float,
) -> tuple[Answer, int] | None:
    """Return the answer and its staleness in ms; None when this copy is damaged, or loses rows.

    Waits for `min_version` to arrive here; 503 when it does not.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while True:
        until, cuts = min(slot_log.decided, slot_log.durable), slot_log.cuts
        result: Result | None = _at_hand(slot_log, operation)
        if result is None:
            [result] = await store.read([past_query(slot_log, operation, until)])
        if isinstance(result, Corrupt):
            return None
        answer = past_answer(operation.select, result)
        if answer.status == 404 and not result and slot_log.kept:
            everything = History(slot_log.slot, operation.link, None, KEPT_VERSIONS_MAX, until)
            [kept] = await store.read([everything])
            if not isinstance(kept, Corrupt):
                answer = trimmed_answer(operation.select, kept)
        if slot_log.cuts != cuts:
            return None  # What is missing is missing here: it leaves this node, or is filled anew.
        version = answer.row.version if answer.row else -1
        if min_version is None or version >= min_version:
            owner = core.owner_of(slot_log.slot) or ""
            peer = core.peers.get(owner)
            heard_at = peer.heard_at if peer else core.now
            return answer._replace(owner=owner), max(0, int((core.now - heard_at) * 1000))
        if loop.time() >= deadline:
            detail = f"version {min_version} has not arrived here in time"
            return Answer(503, "version-not-here", detail), 0
        await asyncio.sleep(POLL_S)


def _at_hand(log: SlotLog, operation: Operation) -> Result | None:
    """Return the newest decided row of a document, where this node owns it and has it in memory."""
    tenure = log.tenure
    if tenure is None or tenure.phase is not Phase.OPEN or operation.select != CURRENT:
        return None
    head = tenure.heads.get(operation.link)
    return [head.settled] if head is not None and head.settled is not None else None


async def declarations(store: Store, logs: Mapping[int, SlotLog]) -> list[Row]:
    """Return the factories that this disk knows; what is decided otherwise replaces them later.

    A node that starts alone cannot know what is decided, and serves levels 1 and 2 all the same.
    """
    until = dict.fromkeys(logs, UNBOUNDED)
    found = await store.links(DECLARATIONS, "", DECLARATIONS_MAX, until)
    results = await store.read([Newest(slot, link, until[slot]) for slot, link, _ in found])
    return [row for result in results if isinstance(result, list) for row in result]
