import asyncio
import signal
import sys
from asyncio import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.kafka.broker import Broker
from tests.kafka.ledgers import OnMock
from tests.kafka.test_ledgers import now, until


@asynccontextmanager
async def in_a_process(mock: OnMock) -> AsyncIterator[tuple[subprocess.Process, list[str]]]:
    """Yield a member that is a process of its own, and the lines that it has printed."""
    arguments = (mock.bootstrap, mock.name, str(mock.session_s), str(mock.window_s))
    command = (sys.executable, "-m", "tests.kafka.paused", *arguments)
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    lines: list[str] = []

    async def read() -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            lines.append(line.decode())

    reading = asyncio.create_task(read())
    try:
        yield process, lines
    finally:
        process.kill()
        await process.wait()
        await reading


@pytest.mark.thorough
async def test_n06_a_stopped_member_leads_nothing_at_its_first_look(
    broker: Broker,
) -> None:
    def somebody_else_leads_all() -> bool:
        return b.leads(0) and b.leads(1)

    async with OnMock(broker, partitions=2) as mock, in_a_process(mock) as (process, lines):
        await until(lambda: bool(lines) and lines[-1].endswith("1\n"), 20.0)
        async with mock.member("b") as b:
            await until(lambda: b.leads(0) != b.leads(1), mock.shared_s)
            await until(lambda: lines[-1].endswith("1\n"), mock.shared_s)
            process.send_signal(signal.SIGSTOP)
            end = now() + 3 * mock.session_s
            await until(somebody_else_leads_all, mock.succession_s)
            await until(lambda: now() > end, 4 * mock.session_s)
            seen, continued_at = len(lines), now()
            process.send_signal(signal.SIGCONT)
            await until(lambda: len(lines) > seen + 3, 10.0)
            looks = [line.split() for line in lines[seen:]]
            assert next(leads for at, leads in looks if float(at) > continued_at) == "0"
            assert somebody_else_leads_all()
