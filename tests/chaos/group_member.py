"""One process of a consumer group, which reports each record that it has processed.

    python -m tests.chaos.group_member CANDIDATE GROUP TOPIC SESSION_S COMMIT_S URL...

A line for each record, `AT PARTITION OFFSET ROUND INDEX`: the moment (CLOCK_MONOTONIC, which all
processes share), its place, and its mark. It is written before the next record is requested, so
before a commit can cover it: each committed record is in the file of a member.
"""

import asyncio
import sys
import time

from docstore.client import Client


async def main(_: str, name: str, topic: str, session_s: str, commit_s: str, *urls: str) -> None:
    """Read for ever."""
    async with (
        Client(urls) as store,
        store.group(name, [topic], session_s=float(session_s), commit_s=float(commit_s)) as group,
    ):
        async for record in group:
            at, (number, index) = time.monotonic(), record.value["mark"]
            sys.stdout.write(f"{at} {record.partition} {record.offset} {number} {index}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
