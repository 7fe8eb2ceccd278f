"""`docstore election run` that is told to end: its command ends first, and its turn with it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from docstore.client import Client, LocalCluster


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with LocalCluster(1) as group:
        yield group.urls[0]


async def vacant(url: str, name: str) -> str:
    """Return why nobody leads."""
    async with Client([url]) as store:
        return str((await store.get(f"/core/elections/{name}")).value["vacant"])


def running(name: str, script: str, url: str) -> "subprocess.Popen[str]":
    """Return a process, in a group of its own, that leads and whose command says that it is on."""
    process = subprocess.Popen(
        [sys.executable, "-m", "docstore", "election", "run", name, "--url", url,
         "--", "sh", "-c", f"echo on; {script}"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "on\n"
    return process


async def test_who_is_told_together_with_its_command_says_nothing_and_resigns(url: str) -> None:
    """As a service manager does. Its command may be dead by the time that it is told."""
    for name in [f"together{number}" for number in range(6)]:
        process = running(name, "exec sleep 60", url)
        os.killpg(process.pid, signal.SIGTERM)
        _, errors = await asyncio.to_thread(process.communicate, timeout=30)
        assert (process.returncode, errors) == (128 + signal.SIGTERM, "")
        assert await vacant(url, name) == "resigned"


async def test_a_command_that_does_not_end_is_killed_when_its_own_is_told_once_more(
    url: str,
) -> None:
    script = "trap 'echo told' TERM; echo $$; while :; do sleep 0.02; done"
    process = running("stubborn", script, url)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    for _ in range(2):
        process.terminate()
        if process.stdout.readline() != "told\n":
            break
    assert await asyncio.to_thread(process.wait, 30) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert await vacant(url, "stubborn") == "resigned"
    process.communicate()
