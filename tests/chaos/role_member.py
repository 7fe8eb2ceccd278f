"""One process that takes part in exclusive roles, and reports at each look which of them it leads.

    python -m tests.chaos.role_member CANDIDATE SESSION_S ROLES GUARDED URL...

A line for each look, `BEFORE AFTER TOKEN TOKEN...`: it was between these two moments of
CLOCK_BOOTTIME, which all processes share; a token for each role, 0 where it does not lead.
Each tenure of a role begins with a write of its token to GUARDED-<role> under its Fence: from then
on older ones are rejected there. A process that was paused first looks, and then sends its old
writes on purpose, and prints `late STATUS` for each.
"""

import asyncio
import sys
import time
from contextlib import suppress

from docstore.client import Client, ClientError
from docstore.client.roles import Role
from tests.chaos.lock_holder import write

NAME = "chaos"
LOOK_S = 0.005
STILL_SESSIONS = 2
"""A process that does not run for this many sessions has been stopped."""


def look(role: Role) -> tuple[float, list[int]]:
    """Print the roles that are led at this moment; return the time and the tokens."""
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    tokens = [role.token(each) if role.leads(each) else 0 for each in range(role.roles)]
    after = time.clock_gettime(time.CLOCK_BOOTTIME)
    sys.stdout.write(f"{before} {after} {' '.join(map(str, tokens))}\n")
    sys.stdout.flush()
    return before, tokens


async def begin(store: Client, role: Role, each: int, link: str) -> None:
    """Write first in a tenure."""
    while role.leads(each):
        with suppress(ClientError):
            await store.put(link, {"by": role.token(each), "late": False}, fence=role.fence(each))
            return
        await asyncio.sleep(LOOK_S)


async def main(_: str, session_s: str, roles: str, guarded: str, *urls: str) -> None:
    """Take part for ever."""
    known, at = [0] * int(roles), time.clock_gettime(time.CLOCK_BOOTTIME)
    async with (
        Client(urls) as store,
        store.role(NAME, roles=int(roles), session_s=float(session_s)) as role,
        asyncio.TaskGroup() as writing,
    ):
        while True:
            before, (at, tokens) = at, look(role)
            for each, (old, token) in enumerate(zip(known, tokens, strict=True)):
                link = f"{guarded}-{each}"
                if old and at - before > STILL_SESSIONS * float(session_s):
                    fence = f"roles/{NAME}/{each}:{old}"
                    status = await write(store, "PUT", link, {"by": old, "late": True}, fence)
                    print("late", status, flush=True)
                if token not in (0, old):
                    writing.create_task(begin(store, role, each, link))
            known = tokens
            await asyncio.sleep(LOOK_S)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
