"""`docstore force-config`: the last resort when a majority is permanently lost (rule M5).

Run on a stopped node, it makes a group of this node alone, from the data on its disk. Writes that
the lost majority decided and this disk never received are gone, and cannot be listed. So the
configuration is marked as forced for ever, and every page of the group shows it.
"""

import asyncio
from dataclasses import replace
from pathlib import Path

from docstore.config import database_in
from docstore.errors import Conflict, NotFound
from docstore.ownership.configuration import Configuration, Registered, Stage, unpack_registered
from docstore.runtime.logs import silenced
from docstore.storage.sqlite import SqliteStore
from docstore.storage.starting import Sizes
from docstore.storage.store import SaveConfiguration, SaveSlot, SlotRecord, Status, Write

JUMP = 1_000_000
"""Increment of the id, so that no configuration of the lost members can seem newer."""


def forced(stored: Registered, me: str) -> Configuration:
    """Return the configuration of this node alone. Raises NotFound if the node was no member."""
    now = stored.decided
    mine = next((each for each in (*now.members, *now.next_members) if each.id == me), None)
    if mine is None:
        members = ", ".join(each.id for each in now.members)
        raise NotFound(f"{me} is not a member of configuration {now.id}; its members are {members}")
    alone = replace(mine, votes=True, observes=False, lost=False)
    return replace(
        now, id=now.id + JUMP, stage=Stage.STABLE, members=(alone,), next_members=(),
        forced=now.forced + 1,
    )  # fmt: skip


async def force(data: Path) -> tuple[Configuration, int]:
    """Rewrite the configuration on a stopped node's disk; return it, and how many slots are lost.

    Raises NotFound, Conflict, DiskFull, or StoreBroken when the node runs or its disk is damaged.
    """
    path = database_in(data)
    if not path.exists() or not (data / "node-id").exists():
        raise NotFound(f"{data} is not a node's data directory: give the one of a stopped member")
    store = SqliteStore(path, sizes=Sizes(files_max=2))
    recovered = await store.open()
    try:
        if recovered.configuration is None:
            raise Conflict(
                f"{data}: this node was never a member of a group: give the "
                "data directory of another survivor"
            )
        stored = unpack_registered(recovered.configuration)
        following = forced(stored, (data / "node-id").read_text().strip())
        held = {n for n, each in recovered.slots.items() if each.record.status is Status.FULL}
        was_mine = set(stored.decided.placement().held_by(following.members[0].id))
        lost = [slot for slot in range(following.slots) if slot not in held | was_mine]
        registered = Registered(following, stored.generation + 1, "", 0, following)
        writes: list[Write] = [SaveConfiguration(registered.pack())]
        writes += [SaveSlot(SlotRecord(slot)) for slot in lost]
        await store.commit(writes)
    finally:
        await store.close()
    return following, len(lost)


def force_now(data: Path) -> tuple[Configuration, int]:
    """Run `force` without log lines: the command prints one line."""
    with silenced():
        return asyncio.run(force(data))
