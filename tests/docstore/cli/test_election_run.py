"""The command of `election run` or `lock` has ended before another process can lead or hold."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from docstore.client import Client, LocalCluster, Lost
from tests.fork_server import SERVER


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with LocalCluster(1) as group:
        yield group.urls[0]


async def vacant(url: str, name: str) -> str:
    """Return why no candidate leads."""
    async with Client([url]) as store:
        return str((await store.get(f"/core/elections/{name}")).value["vacant"])


def running(
    name: str, script: str, url: str, *command: str, ttl: float = 10.0
) -> "subprocess.Popen[str]":
    """Return a process, in its own process group, that leads and whose command has started."""
    process = subprocess.Popen(
        [sys.executable, "-m", "docstore", *(command or ("election", "run")), name, "--url", url,
         "--ttl", str(ttl), "--", "sh", "-c", f"echo on; {script}"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "on\n"
    return process


async def test_a_process_signalled_with_its_command_resigns_silently(url: str) -> None:
    """A service manager signals the whole process group, so the command may die first."""
    for name in [f"together{number}" for number in range(6)]:
        process = running(name, "exec sleep 60", url)
        os.killpg(process.pid, signal.SIGTERM)
        _, errors = await asyncio.to_thread(process.communicate, timeout=30)
        assert (process.returncode, errors) == (128 + signal.SIGTERM, "")
        assert await vacant(url, name) == "resigned"


async def test_a_stubborn_command_is_killed_at_the_second_signal(
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


def job(on_sigterm: str) -> str:
    """Return a script that prints its id, and runs a command on SIGTERM."""
    return f"sh -c 'trap \"{on_sigterm}\" TERM; echo $$; while :; do sleep 0.02; done'"


STUBBORN, SLOW = job("echo told"), job("sleep 0.3; exit")


async def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return (await asyncio.to_thread(process.stdout.readline)).strip()


async def seen_by_the_next(process: "subprocess.Popen[str]", url: str, pid: str) -> str:
    """Return whether a process of the previous holder runs when the next one holds the lock."""
    successor = running("x", f"kill -0 {pid} 2>/dev/null && echo runs || echo ended", url, "lock")
    seen = await said(successor)
    for each in (successor, process):
        await asyncio.to_thread(each.communicate, timeout=30)
    return seen


@pytest.mark.parametrize("apart", ["", "setsid "])
async def test_a_lock_is_released_once_all_processes_of_its_command_have_ended(
    url: str, apart: str
) -> None:
    process = running("x", f"{apart}{STUBBORN}; true", url, "lock")
    pid = await said(process)
    process.terminate()
    assert await said(process) == "told"
    process.terminate()  # The second signal kills the job.
    assert await seen_by_the_next(process, url, pid) == "ended"
    assert process.returncode == 128 + signal.SIGTERM


async def test_background_processes_of_a_command_end_with_it(url: str) -> None:
    process = running("x", f"setsid {SLOW} & sleep 0.5; exit 7", url, "lock")
    assert await seen_by_the_next(process, url, await said(process)) == "ended"
    assert process.returncode == 7


async def test_processes_of_a_command_are_killed_before_its_lease_ends(url: str) -> None:
    process = running("x", f"{STUBBORN}; true", url, "lock", ttl=2)
    pid = await said(process)
    async with Client([url]) as store:
        lock = (await store.get("/core/locks/x")).value
        await store.json("PATCH", lock["holder"]["lease"], {"kind": "ExpireRequest"})
    assert await seen_by_the_next(process, url, pid) == "ended"
    assert process.returncode == 128 + signal.SIGTERM


async def test_a_command_that_succeeds_after_its_lead_was_lost_is_a_failure(
    url: str,
) -> None:
    process = running(
        "lost", "trap 'exit 0' TERM; while :; do sleep 0.02; done", url,
        *("election", "run", "--json"), ttl=2,
    )  # fmt: skip
    async with Client([url]) as store:
        election = (await store.get("/core/elections/lost")).value
        await store.json("PATCH", election["holder"]["lease"], {"kind": "ExpireRequest"})
    _, errors = await asyncio.to_thread(process.communicate, timeout=30)
    said, *_, page = errors.splitlines()
    assert said.endswith("has lost the lock or leadership")
    assert process.returncode == 1
    ended = json.loads(page)
    assert ended.keys() == {"candidate", "fence", "lost", "exit"}
    assert (ended["candidate"] in said, ended["lost"], ended["exit"]) == (True, True, 1)


async def typed(url: str, *words: str) -> tuple[int, str, str]:
    """Run a command; return its exit code, output and errors."""
    before, apart, behind = " ".join(words).partition(" -- ")
    command = [*before.split(), "--url", url, *apart.split(), *behind.split()]
    ended = await asyncio.to_thread(SERVER.run, *command)
    return ended.returncode, ended.stdout, ended.stderr


async def test_a_held_lock_is_waited_for_no_longer_than_the_timeout(url: str) -> None:
    async with Client([url]) as store, store.lock("busy", candidate="ann"):
        for limit in ("--try", "--timeout 0.1"):
            code, out, said = await typed(url, f"lock busy {limit} -- echo ran")
            assert (code, out, said.count("\n")) == (75, "", 1)
            assert "the lock busy was not obtained: ann holds it" in said
            code, _, said = await typed(url, f"lock busy {limit} --json -- echo ran")
            assert (code, json.loads(said)) == (75, {"holder": "ann", "exit": 75})
        assert "ann" in (await typed(url, "lock list"))[1]
        shown = json.loads((await typed(url, "lock show busy --json"))[1])
        assert (shown["holder"]["candidate"], shown["queue"]) == ("ann", [])
    assert await typed(url, "lock busy --try -- echo ran") == (0, "ran\n", "")
    with pytest.raises(TimeoutError):
        async with Client([url]) as store, store.lock("busy"), store.lock("busy", wait_s=0):
            pass


async def test_a_lock_may_have_the_name_of_a_command(url: str) -> None:
    assert await typed(url, "lock run list -- echo ran") == (0, "ran\n", "")
    code, out, said = await typed(url, "lock run list --json -- printenv DOCSTORE_FENCE")
    page = json.loads(said)
    assert (code, out, page["lost"], page["exit"]) == (0, page["fence"] + "\n", False, 0)
    code, _, said = await typed(url, "lock list -- echo ran")
    assert (code, "docstore lock run list -- COMMAND" in said) == (2, True)


async def test_a_lock_is_broken_once_its_holder_knows_the_loss(url: str) -> None:
    async with Client([url]) as store:
        held = store.lock("stuck", candidate="ann", ttl_s=0.6)
        await held.__aenter__()
        result = await typed(url, "lock break stuck")
        assert not held.held()
        with pytest.raises(Lost):
            await held.__aexit__(None, None, None)
        assert result == (0, "ann no longer holds stuck; now no candidate holds it\n", "")
        assert (await typed(url, "lock break stuck"))[0] == 1


@pytest.mark.thorough
async def test_leadership_passes_to_the_named_candidate(url: str) -> None:
    async with Client([url]) as store:
        candidates = [store.election("moved", candidate=name, ttl_s=2.0) for name in "abc"]
        async with candidates[0] as a, candidates[1] as b, candidates[2] as c:
            await a.campaign()
            waiting = [asyncio.create_task(each.campaign()) for each in (b, c)]
            code, out = 1, ""
            while code == 1:  # Until `c` waits.
                code, out, said = await typed(url, "election transfer moved c")
                assert code == 0 or "c does not wait to lead moved" in said, said
            assert out == "a no longer leads; now c leads\n"
            await waiting[1]
            assert (a.leads(), b.leads(), c.leads()) == (False, False, True)
            assert "c" in (await typed(url, "election list"))[1]
            assert (await typed(url, "election resign moved"))[
                1
            ] == "c no longer leads; now b leads\n"
            await waiting[0]
            assert (b.leads(), c.leads()) == (True, False)
