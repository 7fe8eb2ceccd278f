"""One process that wants a lock, again and again, and counts while it holds it.

    python -m tests.chaos.lock_holder CANDIDATE TTL_S LOCK COUNTER URL...

It writes without a condition, under its Fence alone: a late write would set the count back. The
first write of a turn changes nothing; from then on older tokens are rejected, and it reads. After a
pause it first sends its last write on purpose, and prints the status.
"""

import asyncio
import sys
import time
from contextlib import suppress
from typing import Any

import orjson

from docstore.client import Client, ClientError, Lock, RequestFailed

OK = 200
GAP_S = 1.0
"""A process that does not run for this long has been stopped."""


async def write(store: Client, method: str, link: str, body: Any, fence: str) -> int:
    """Write under a fence, once; return the status, 0 if its fate is unknown.

    In that case the turn is over: the first write of the next one keeps late writes out.
    """
    headers = {"Content-Type": "application/json", "Fence": fence}
    try:
        status, _, _ = await store.request(method, link, orjson.dumps(body), headers)
    except RequestFailed as error:
        return 0 if error.outcome == "unknown" else error.status
    except ClientError:
        return 0
    return status


async def count(store: Client, lock: Lock, link: str) -> None:
    """Count for as long as the lock is held."""
    if await write(store, "PATCH", link, {"by": lock.token}, lock.fence()) != OK:
        return
    number = (await store.get(link)).value["n"]
    awake_at = time.monotonic()
    while lock.held():
        await asyncio.sleep(0.02)
        has_slept = time.monotonic() - awake_at > GAP_S
        awake_at = time.monotonic()
        number += 1
        status = await write(store, "PUT", link, {"n": number, "by": lock.token}, lock.fence())
        if has_slept:
            print("late", status, flush=True)
        if status != OK:
            return


async def main(candidate: str, ttl_s: str, name: str, link: str, *urls: str) -> None:
    """Acquire the lock again and again."""
    async with Client(urls) as store:
        while True:
            with suppress(ClientError):
                async with store.lock(name, candidate=candidate, ttl_s=float(ttl_s)) as lock:
                    await count(store, lock, link)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
