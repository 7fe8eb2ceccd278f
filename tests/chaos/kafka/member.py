"""One process of a group of aiokafka's consumers, which reports each record that it has.

    python -m tests.chaos.kafka.member CANDIDATE BOOTSTRAP GROUP TOPIC SESSION_MS COMMIT_MS URL...

It writes the lines of tests/chaos/group_member.py.
"""

import asyncio
import json
import sys
import time

from aiokafka import AIOKafkaConsumer


async def main(
    _: str, bootstrap: str, group: str, topic: str, session_ms: str, commit_ms: str, *urls: str
) -> None:
    """Read for ever."""
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest",
        session_timeout_ms=int(session_ms), heartbeat_interval_ms=int(session_ms) // 6,
        auto_commit_interval_ms=int(commit_ms),
    ) as consumer:  # fmt: skip
        async for record in consumer:
            at, (number, index) = time.monotonic(), json.loads(record.value)["mark"]
            sys.stdout.write(f"{at} {record.partition} {record.offset} {number} {index}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
