"""A member of a role, which prints (moment, whether it leads) again and again.

python -m tests.docstore.client.groups.process NAME SESSION_S URL...
"""

import asyncio
import sys
import time

from docstore.client import Client


async def main(name: str, session_s: float, urls: list[str]) -> None:
    async with Client(urls) as client, client.role(name, session_s=session_s) as role:
        while True:
            before = time.clock_gettime(time.CLOCK_BOOTTIME)
            leads = role.leads(0)
            after = time.clock_gettime(time.CLOCK_BOOTTIME)
            # Between both moments: print the later one for a yes, the earlier one for a no.
            sys.stdout.write(f"{after if leads else before} {int(leads)}\n")
            sys.stdout.flush()
            await asyncio.sleep(0.005)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), sys.argv[3:]))
