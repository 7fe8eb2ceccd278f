"""Elections and locks on three real nodes, as candidates, holders and observers see them.

The tests share the nodes: each leaves all of them running.
"""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from docstore.client import Client, LocalCluster, Lost, RequestFailed
from docstore.client.elections import ElectionState
from docstore.client.local import LocalNode
from tests.docstore.watching import until
from tests.fork_server import SERVER

TTL_S = 2.0


async def owner_of(group: LocalCluster, link: str) -> LocalNode:
    return await asyncio.to_thread(group.owner_of, link)


async def versions(store: Client, link: str) -> list[dict[str, Any]]:
    """Return all versions, oldest first."""
    return list(reversed(await store.history(link)))


def leaders(found: list[dict[str, Any]]) -> list[str]:
    """Return the leaders, one after the other."""
    names: list[str] = []
    for each in found:
        holder = each["holder"]
        if holder and (not names or names[-1] != holder["candidate"]):
            names.append(holder["candidate"])
    return names


async def test_l01_l03_one_of_three_candidates_leads_at_each_node(
    group: LocalCluster, store: Client
) -> None:
    async with (
        store.election("l01", candidate="a") as one,
        store.election("l01", candidate="b") as two,
        store.election("l01", candidate="c") as three,
    ):
        every = (one, two, three)
        tasks = {asyncio.create_task(each.campaign({"at": each.candidate})): each for each in every}
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        [winner] = done
        assert [each.leads() for each in every].count(True) == 1
        assert tasks[winner].leads()
        for task in others:
            await queued(store, "/core/elections/l01", tasks[task].candidate)
        for node in group.nodes:
            async with Client([node.url]) as client:
                shown = (await client.get("/core/elections/l01")).value
                assert shown["token"] == winner.result()
                assert shown["holder"]["value"] == {"at": tasks[winner].candidate}
                waiting = {each["candidate"] for each in shown["queue"]}
                assert waiting | {tasks[winner].candidate} == set("abc")
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


async def test_l05_a_repeated_campaign_returns_the_same_token(store: Client) -> None:
    async with store.election("l05", candidate="a") as election:
        token = await election.campaign(1)
        assert await election.campaign(1) == token
        body = {"kind": "CampaignRequest", "candidate": "a", "lease": election.lease.link}
        page = await store.json("PATCH", "/core/elections/l05", body)
        assert (page["won"], page["token"], page["documentVersion"]) == (True, token, token)


async def test_l09_fifty_concurrent_candidates_lead_once_each(
    group: LocalCluster, store: Client
) -> None:
    """Each campaign and each resignation is one row, and each candidate leads once."""

    async def take_part(number: int) -> None:
        candidate = f"c{number}"
        async with store.election("l09", candidate=candidate, lease=lease) as election:
            await election.campaign()
            await election.resign()

    async with store.lease(ttl_s=30.0) as lease:
        await asyncio.gather(*map(take_part, range(50)))
        # The end of the lease would add one version.
        found = await versions(store, "/core/elections/l09")
    assert [each["documentVersion"] for each in found] == list(range(101))
    led = leaders(found)
    assert sorted(led) == sorted(f"c{number}" for number in range(50))
    tokens = [each["token"] for each in found]
    assert tokens == sorted(tokens)


async def test_l14_a_proclaimed_value_survives_the_kill_of_its_owner(
    group: LocalCluster, store: Client
) -> None:
    async with store.election("l14", candidate="a", ttl_s=10.0) as election:
        await election.campaign("before")
        owner = await owner_of(group, "/core/elections/l14")
        await election.proclaim("after")
        await asyncio.to_thread(group.kill, owner)
        others = [node.url for node in group.nodes if node is not owner]
        async with Client(others) as survivors:
            shown = (await survivors.get("/core/elections/l14")).value
            assert shown["holder"]["value"] == "after"
            assert election.leads()
        group.start(owner)
        await asyncio.to_thread(group.wait_ready)


async def test_l18_a_resumed_observer_sees_each_version_once_in_order(
    store: Client,
) -> None:
    async with store.election("l18", candidate="a") as election:
        await election.campaign(0)
        watching = election.observe()
        first = await anext(watching)
        await election.proclaim(1)
        seen = await anext(watching)
        await watching.aclose()
        assert (first.leader, first.value, seen.value) == ("a", 0, 1)
        for number in range(2, 102):
            await election.proclaim(number)
        found = []
        async for state in store.election("l18").observe(since=seen.resume):
            found.append(state.value)
            if state.value == 101:
                break
    assert found == list(range(2, 102))


async def test_a_resume_position_misses_and_repeats_no_version(
    store: Client,
) -> None:
    async def observed(since: str | None, last: int) -> list[ElectionState]:
        found: list[ElectionState] = []
        async with asyncio.timeout(20):
            async for state in store.election("resumed").observe(since=since):
                found.append(state)
                if state.value == last:
                    break
        return found

    async with store.election("resumed", candidate="a") as election:
        [before] = [await anext(election.observe())]
        await election.campaign(0)
        [first] = await observed(None, 0)
        for number in range(1, 20):
            await election.proclaim(number)
        seen = await observed(first.resume, 19)
        assert [state.value for state in seen] == list(range(1, 20))
        for state in seen[:-1]:
            assert [each.version for each in await observed(state.resume, 19)] == [
                each.version for each in seen if each.version > state.version
            ]
        assert [each.value for each in await observed(before.resume, 0)][-1] == 0


async def test_l21_one_of_fifty_waiting_candidates_wins_and_the_others_wait(store: Client) -> None:
    async with store.lease(ttl_s=30.0) as lease, store.election("l21", lease=lease) as holder:
        await holder.campaign()
        waiting: dict[asyncio.Task[int], str] = {}
        for number in range(50):
            candidate = store.election("l21", candidate=f"c{number:02}", lease=lease)
            waiting[asyncio.create_task(candidate.campaign())] = candidate.candidate
        link = "/core/elections/l21"

        async def queue() -> list[str]:
            return [each["candidate"] for each in (await store.get(link)).value["queue"]]

        async with asyncio.timeout(20):
            while len(await queue()) < 50:
                await asyncio.sleep(0.05)
        order, before = await queue(), (await store.get(link)).version
        await holder.resign()
        assert not holder.leads()
        done, others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert [waiting[task] for task in done] == order[:1]
        assert (await store.get(link)).version == before + 1
        assert await queue() == order[1:]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


async def test_l22_a_transfer_to_the_named_candidate_is_one_row(store: Client) -> None:
    link = "/core/elections/l22"
    async with (
        store.election("l22", candidate="a") as old,
        store.election("l22", candidate="b") as other,
        store.election("l22", candidate="c") as chosen,
    ):
        token = await old.campaign()
        with pytest.raises(RequestFailed, match="409"):
            await old.transfer("nobody")
        assert old.leads()  # The refusal changed nothing.
        campaigns = []
        for each in (other, chosen):
            campaigns.append(asyncio.create_task(each.campaign()))
            await queued(store, link, each.candidate)
        before = (await store.get(link)).version
        await old.transfer("c")
        assert not old.leads()
        assert await campaigns[1] == before + 1
        assert chosen.leads()
        late = {"kind": "ProclaimRequest", "candidate": "a", "token": token, "value": 1}
        with pytest.raises(RequestFailed) as refused:
            await store.json("PATCH", link, late)
        assert refused.value.problem["errorCode"] == "not-holder"
        campaigns[0].cancel()
        await asyncio.gather(*campaigns, return_exceptions=True)


async def queued(store: Client, link: str, candidate: str) -> None:
    """Return once a candidate waits in the queue."""
    async with asyncio.timeout(10):
        while candidate not in [e["candidate"] for e in (await store.get(link)).value["queue"]]:
            await asyncio.sleep(0.02)


async def test_a_cancelled_candidate_leaves_the_queue(store: Client) -> None:
    async with store.lock("cancelled") as first:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5), store.lock("cancelled"):
                raise AssertionError
        assert (await store.get("/core/locks/cancelled")).value["queue"] == []
        assert first.held()
        assert first.fence() == f"locks/cancelled:{first.token}"
    assert not first.held()
    with pytest.raises(Lost):
        first.fence()
    assert (await store.get("/core/locks/cancelled")).value["holder"] is None


@pytest.mark.thorough  # All nodes start a second time.
async def test_l02_l06_a_campaign_needs_a_majority_and_a_lock_survives_a_restart(
    group: LocalCluster, store: Client
) -> None:
    link = "/core/locks/l06"
    async with store.lease(ttl_s=60.0) as lease, store.lock("l06", lease=lease) as held:
        token = held.token
        for node in group.nodes[1:]:
            await asyncio.to_thread(group.kill, node)
        body = {"kind": "AcquireRequest", "candidate": "late", "lease": lease.link}
        async with Client(group.urls[:1]) as alone:
            with pytest.raises(RequestFailed) as refused:
                await alone.json("PATCH", "/core/locks/l02", body, Docstore_Timeout_Ms="500")
            assert refused.value.status == 503
        late = store.lock("l06", candidate="late", lease=lease)
        waiting = asyncio.create_task(late.__aenter__())
        await asyncio.to_thread(group.kill, group.nodes[0])
        for node in group.nodes:
            group.start(node)
        await asyncio.to_thread(group.wait_ready)
        await queued(store, link, "late")
        shown = (await store.get(link)).value
        assert (shown["holder"]["candidate"], shown["token"]) == (held.candidate, token)
        assert not waiting.done()
    await waiting
    assert late.token > token


# Processes


def run(*words: str, url: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "docstore", *words[:1]]
    at = words.index("--")
    return subprocess.Popen(
        [*command, *words[1:at], "--url", url, *words[at:]],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def said(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


async def held(store: Client, link: str) -> None:
    """Return once a candidate holds a lock."""
    async with asyncio.timeout(20):
        while (await store.get(link)).value["holder"] is None:
            await asyncio.sleep(0.05)


async def test_a_command_runs_under_a_lock_and_its_exit_code_is_returned(
    group: LocalCluster, tmp_path: Path
) -> None:
    fence = tmp_path / "fence"
    script = f"echo $DOCSTORE_FENCE > {fence}; exit 7"
    process = run("lock", "job", "--", "sh", "-c", script, url=group.urls[0])
    assert await asyncio.to_thread(process.wait, 30) == 7
    assert said(fence).startswith("locks/job:")
    waits = run("lock", "job", "--", "sleep", "60", url=group.urls[0])
    async with Client(group.urls) as store:
        await held(store, "/core/locks/job")
        waits.terminate()
        assert await asyncio.to_thread(waits.wait, 30) == 128 + signal.SIGTERM
        assert (await store.get("/core/locks/job")).value["vacant"] == "resigned"
    missing = run("lock", "job", "--", "/no/such/program", url=group.urls[0])
    assert await asyncio.to_thread(missing.wait, 30) == 127
    async with Client(group.urls) as store:
        assert (await store.get("/core/locks/job")).value["holder"] is None


async def test_l11_a_holder_paused_past_its_ttl_loses_and_its_late_write_is_fenced(
    group: LocalCluster, store: Client, tmp_path: Path
) -> None:
    """After a SIGSTOP longer than the TTL, the first check after SIGCONT kills the command."""
    output = tmp_path / "fence"
    script = f"trap '' TERM; echo $DOCSTORE_FENCE > {output}; while :; do sleep 0.05; done"
    process = run(
        "election", "run", "l11", "--ttl", str(TTL_S), "--candidate", "old",
        "--", "sh", "-c", script, url=",".join(group.urls),
    )  # fmt: skip
    try:
        await asyncio.to_thread(until, lambda: said(output) != "", 30.0)
        fence = said(output)
        await store.declare("/results")
        await store.put("/results/a", {"by": "old"}, fence=fence)
        process.send_signal(signal.SIGSTOP)
        async with store.election("l11", candidate="new") as election:
            await election.campaign()
            await store.put("/results/a", {"by": "new"}, fence=election.fence())
            process.send_signal(signal.SIGCONT)
            assert await asyncio.to_thread(process.wait, 30) == 128 + signal.SIGKILL
            with pytest.raises(RequestFailed) as refused:
                await store.put("/results/a", {"by": "late"}, fence=fence)
            assert refused.value.problem["errorCode"] == "fenced"
            document = await store.get("/results/a")
            assert (document.value["by"], document.version) == ("new", 1)
            assert election.leads()
    finally:
        process.kill()
        await asyncio.to_thread(process.wait, 30)


async def test_a_command_ends_with_its_killed_leader(
    group: LocalCluster, store: Client, tmp_path: Path
) -> None:
    beats = tmp_path / "beats"
    script = f"while :; do echo x >> {beats}; sleep 0.02; done"
    process = run(
        "election", "run", "killed", "--ttl", "1", "--", "sh", "-c", script, url=group.urls[0]
    )
    await asyncio.to_thread(until, lambda: said(beats) != "", 30.0)
    process.kill()
    await asyncio.to_thread(process.wait, 30)
    async with store.election("killed", candidate="next") as election:
        await election.campaign()
        size = beats.stat().st_size
        assert election.leads()
        assert (await store.get("/core/elections/killed")).value["holder"]["candidate"] == "next"
        assert beats.stat().st_size == size


def test_an_election_is_shown(group: LocalCluster) -> None:
    shown = SERVER.run("election", "show", "l01", "--url", group.urls[0])
    assert shown.returncode == 0, shown.stderr
    assert "no candidate" in shown.stdout
    assert "l01, token" in shown.stdout
