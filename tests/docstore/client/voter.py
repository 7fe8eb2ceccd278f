"""A process that votes, for tests: `voter.py NAME STATE a=PORT b=PORT c=PORT`.

It prints its state when that changes, and after each pause of the process: whether it leads, its
generation, and whether it was paused before this check.
"""

import asyncio
import sys
import time

from docstore.client.voting import Voting
from docstore.ownership.by_vote import Times

TIMES = Times(heartbeat_s=0.05, patience_s=0.4)
STILL_S = 0.4


async def main(name: str, state: str, *ports: str) -> None:
    members = {each: ("127.0.0.1", int(port)) for each, port in (p.split("=") for p in ports)}
    said: tuple[bool, int] | None = None
    async with Voting(name, members, state=state, times=TIMES) as voting:
        looked_at = time.monotonic()
        while True:
            was_paused = time.monotonic() - looked_at > STILL_S
            looked_at = time.monotonic()
            seen = (voting.leads(), voting.generation)
            if seen != said or was_paused:
                said = seen
                sys.stdout.write(f"{seen[0]:d} {seen[1]} {was_paused:d}\n")
                sys.stdout.flush()
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
