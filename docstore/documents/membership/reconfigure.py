"""A side road: going over to a configuration that is decided (rules M1 to M3, D4).

Every term of this node ends, whatever changes: the next owners prepare under the new replica
sets, and what they hear is from nodes that count by the same configuration. What was in flight
goes back to its entry nodes, which ask again under the same identities. A slot that comes to
this node begins empty and proves nothing until it has been filled; a slot that goes is erased,
since by then majorities of the new replicas hold it.

Source: rule M2; ending all terms is our own, simpler than telling which ones the change touches.
"""

from collections.abc import Mapping

from docstore.documents.core import Core
from docstore.documents.depose import depose
from docstore.documents.effects import Reconfigured
from docstore.documents.log import SlotLog, log_from_disk
from docstore.model.document import NO_BALLOT
from docstore.ownership.configuration import Configuration, first_registered
from docstore.storage.store import (
    Erase,
    SaveConfiguration,
    SaveSlot,
    SlotRecord,
    SlotRecovered,
    Status,
    Write,
)


def use(core: Core, configuration: Configuration) -> None:
    """Count by `configuration` from now on, in memory and in the batch that forms."""
    for log in core.logs.values():
        depose(core, log)
    core.take_members(configuration)
    held = set(core.placement.held_by(core.me))
    for slot in sorted(core.logs.keys() - held):
        _give_up(core, core.logs.pop(slot))
    for log in core.logs.values():
        log.place(core.placement)
    for slot in sorted(held - core.logs.keys()):
        core.logs[slot] = _begin_empty(core, slot)
    core.counters["configurations_used"] += 1
    core.claims_changed = core.routes_changed = True
    core.outbox.emit(Reconfigured(configuration))


def join_writes(configuration: Configuration, me: str) -> list[Write]:
    """Return what a node stores that is told of its group: its slots prove nothing yet (D4)."""
    writes: list[Write] = [SaveConfiguration(first_registered(configuration).pack())]
    if configuration.id > 1:
        placement = configuration.placement()
        writes += [
            SaveSlot(SlotRecord(slot, status=Status.FAULTY)) for slot in placement.held_by(me)
        ]
    return writes


def founding_writes(
    configuration: Configuration, me: str, found: Mapping[int, SlotRecovered]
) -> list[Write]:
    """Return what a founder stores whose disk was made of a backup, which has all slots.

    Those that others hold go, as from any node that they leave.
    """
    writes = join_writes(configuration, me)
    for slot in sorted(found.keys() - set(configuration.placement().held_by(me))):
        record = SlotRecord(slot, promised=found[slot].record.promised, status=Status.FAULTY)
        writes += [Erase(slot), SaveSlot(record)]
    return writes


def _give_up(core: Core, log: SlotLog) -> None:
    log.clear(kept=0, floor=-1)
    log.full = False
    core.logs.former[log.slot] = log.promised
    core.corrupted.discard(log.slot)
    core.outbox.store(Erase(log.slot))
    core.outbox.save(log)


def _begin_empty(core: Core, slot: int) -> SlotLog:  # Seam.
    log = log_from_disk(slot, core.placement, None)
    log.promised = core.logs.former.pop(slot, NO_BALLOT)
    log.full = False
    core.outbox.store(Erase(slot))
    core.outbox.save(log)
    return log
