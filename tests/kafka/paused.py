"""A member of its own process, to be stopped and continued: it prints when it leads role 0 or 1.

    python -m tests.kafka.paused BOOTSTRAP GROUP SESSION_S WINDOW_S

Each line is the time of the look, by the clock that all processes of a machine share, and 0 or 1.
"""

import asyncio
import sys

from docstore.client.boot_clock import boot_clock
from docstore.client.kafka import KafkaRole


async def print_looks(bootstrap: str, group: str, session_s: float, window_s: float) -> None:
    now = boot_clock()
    async with KafkaRole(
        bootstrap,
        group,
        topic=group,
        roles=2,
        session_s=session_s,
        window_s=window_s,
        member="paused",
    ) as role:
        while True:
            print(f"{now():.6f} {role.leads(0) or role.leads(1):d}", flush=True)
            await asyncio.sleep(0.002)


if __name__ == "__main__":
    asyncio.run(print_looks(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])))
