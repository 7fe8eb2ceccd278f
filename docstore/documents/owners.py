"""Owners of slots, as this node hears of them; never counted as a vote.

A node is sure of its own slots. For other slots it knows the claims in the members' heartbeats. If
no live member claims a slot, the member that should take it over is asked.
"""

from collections.abc import Iterable
from functools import cache

from docstore.documents.core import Core
from docstore.documents.term import Phase


def first_alive(core: Core, slot: int) -> str | None:
    """Return the member that should own the slot, None if no member can.

    It is the first in order of preference that is alive and fit; if none is fit, the first alive.
    """
    unfit = None
    for member in core.placement.replicas(slot):
        if core.is_alive(member) and not _is_faulty(core, member, slot):
            if core.may_own(member):
                return member
            unfit = unfit or member
    return unfit


def _is_faulty(core: Core, member: str, slot: int) -> bool:
    if member == core.me:
        log = core.logs.get(slot)
        return log is not None and not log.full
    return slot in core.peers[member].faulty


def claimant(core: Core, slot: int) -> str | None:
    """Return the live member that claims the slot, if there is one."""
    claim = core.peers.claims.get(slot)
    return claim[1] if claim and core.is_alive(claim[1]) else None


def owners_of(core: Core, slots: Iterable[int]) -> dict[str, list[int]]:
    """Return owner -> slots, without the slots for which no node can be asked."""
    me, logs, claims, is_alive = core.me, core.logs, core.peers.claims, cache(core.is_alive)
    owners: dict[str, list[int]] = {}
    for slot in slots:  # A thousand for each query, so calls are avoided.
        log, claim = logs.get(slot), claims.get(slot)
        if log is not None and log.term is not None and log.term.phase is Phase.OPEN:
            owner: str | None = me
        elif claim is not None and is_alive(claim[1]):
            owner = claim[1]
        else:
            owner = first_alive(core, slot)
        if owner is not None:
            if owner not in owners:
                owners[owner] = []
            owners[owner].append(slot)
    return owners


def owner_of(core: Core, slot: int) -> str | None:
    """Return the node to ask about a slot: its owner, else its preferred live node, else None."""
    log = core.logs.get(slot)
    if log and log.term and log.term.phase is Phase.OPEN:
        return core.me
    holder = claimant(core, slot)
    return holder or first_alive(core, slot)
