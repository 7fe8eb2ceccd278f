"""Stopping without a failed request: first the slots go to others, then the last answers leave."""

import asyncio
import contextlib

from docstore.protocol.core import Core
from docstore.protocol.replica import Replica
from docstore.streams.partitions import Partitions

POLL_S = 0.02


async def all_given_away(replica: Replica, partitions: Partitions, timeout_s: float) -> None:
    """Return when nothing is ours to give, or nobody is there to take it, or time is over."""
    core, holding_back = replica.core, partitions.holding_back
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while (  # noqa: ASYNC110 - once in a life
                _can_hand_over(core)
                or replica.register.heir() is not None
                or holding_back.leads_what_others_could
            ):
                await asyncio.sleep(POLL_S)


def _can_hand_over(core: Core) -> bool:
    return bool(core.reigns()) and any(core.may_own(peer) for peer in core.peers)
