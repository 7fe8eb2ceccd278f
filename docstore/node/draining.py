"""Stopping without a failed request: first the slots go to others, then the last answers leave."""

import asyncio
import contextlib

from docstore.documents.view import ReplicaView
from docstore.streams.partitions import Partitions

POLL_S = 0.02


async def all_given_away(view: ReplicaView, partitions: Partitions, timeout_s: float) -> None:
    """Return when nothing is ours to give, or nobody is there to take it, or time is over."""
    deferring = partitions.deferring
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while view.owners.has_to_give or deferring.leads_what_others_could:  # noqa: ASYNC110 - once
                await asyncio.sleep(POLL_S)
