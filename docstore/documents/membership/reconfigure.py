"""The switch to a decided configuration (rules M1 to M3, D4).

Every term of this node ends: the next owners prepare under the new replica sets, and hear only
nodes that use the same configuration. Operations in flight return to their entry nodes, which ask
again under the same identities. A slot that comes to this node begins empty and proves nothing
until it is filled. A slot that leaves is erased, because a majority of its new replicas holds it by
then.

Source: rule M2. Ending all terms is our own choice, simpler than finding those that the change
touches.
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
    """Use `configuration` from now on, in memory and in the pending batch."""
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
    """Return the first writes of a joining node.

    They mark its slots as incomplete: a missing row must not count as evidence (D4).
    """
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
    """Return the first writes of a founder whose disk was restored from a backup of all slots.

    Slots that other nodes hold are erased.
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


def _begin_empty(core: Core, slot: int) -> SlotLog:  # Tests replace this.
    log = log_from_disk(slot, core.placement, None)
    log.promised = core.logs.former.pop(slot, NO_BALLOT)
    log.full = False
    core.outbox.store(Erase(slot))
    core.outbox.save(log)
    return log
