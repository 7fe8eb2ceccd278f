"""Exclusive roles in separate processes, compared by one shared clock."""

import asyncio
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass, field

import pytest

from docstore.client import LocalCluster
from tests.docstore.client.groups.conftest import until

SESSION_S = 0.8

pytestmark = pytest.mark.skipif(
    not hasattr(time, "CLOCK_BOOTTIME"), reason="processes are compared by the clock of the boot"
)


@dataclass
class Watched:
    """A process, and its printed lines."""

    process: Process
    said: list[tuple[float, bool]] = field(default_factory=list)

    @property
    def leads(self) -> bool:
        return bool(self.said) and self.said[-1][1]

    async def listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            at, leads = line.split()
            self.said.append((float(at), leads == b"1"))


async def started(group: LocalCluster, name: str) -> tuple[Watched, "asyncio.Task[None]"]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.docstore.client.groups.process", name, str(SESSION_S),
        *group.urls, stdout=PIPE,
    )  # fmt: skip
    watched = Watched(process)
    return watched, asyncio.create_task(watched.listen())


async def test_n05_n06_n07_a_paused_leader_stops_first_and_a_killed_one_is_succeeded(
    group: LocalCluster, name: str
) -> None:
    first, hearing = await started(group, name)
    await until(lambda: first.leads, 20)
    second, other = await started(group, name)
    await until(lambda: bool(second.said), 20)

    first.process.send_signal(signal.SIGSTOP)
    stopped = time.clock_gettime(time.CLOCK_BOOTTIME)
    await until(lambda: second.leads)
    await until(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > stopped + 3 * SESSION_S)
    heard = len(first.said)
    first.process.send_signal(signal.SIGCONT)
    await until(lambda: len(first.said) > heard + 3)
    resumed = next(at for at, _ in first.said if at > stopped + 2 * SESSION_S)
    assert [leads for at, leads in first.said if at >= resumed][:3] == [False, False, False]
    last_yes = max(at for at, leads in first.said if leads)
    first_yes = min(at for at, leads in second.said if leads)
    assert last_yes < first_yes

    second.process.kill()
    killed = time.clock_gettime(time.CLOCK_BOOTTIME)
    await until(lambda: first.leads)
    succeeded = next(at for at, leads in first.said if leads and at > killed)
    assert succeeded - killed < SESSION_S + 2.0, "half a second on an idle machine"
    first.process.kill()
    await asyncio.gather(first.process.wait(), second.process.wait(), hearing, other)
