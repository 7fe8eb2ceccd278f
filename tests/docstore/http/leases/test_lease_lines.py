"""Leases while nodes of a separate group are killed, paused and drained.

Each test is named after its line of the scenarios.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import aiohttp
import pytest

from docstore.client import LocalCluster
from docstore.client.boot_clock import boot_clock
from docstore.client.local import LocalNode
from tests.docstore.http.leases.asking import LEASES, Session, ask, until

TTL_MS = 3_000
clock = boot_clock()


@pytest.fixture
async def session() -> AsyncIterator[Session]:
    async with Session(timeout=aiohttp.ClientTimeout(total=5)) as session:
        yield session


async def at_any(group: LocalCluster, session: Session, method: str, path: str, body: Any) -> Any:
    """Try the nodes in turn until one answers; return its page."""
    async with asyncio.timeout(30):
        while True:
            for node in group.nodes:
                with suppress(aiohttp.ClientError, TimeoutError):
                    status, page = await ask(session, method, node.url + path, body)
                    if status < 500:
                        assert status < 300, page
                        return page
            await asyncio.sleep(0.02)


async def test_l06_l14_a_lease_survives_a_restart_of_all_nodes_with_its_whole_ttl(
    group: LocalCluster, session: Session
) -> None:
    asked = {"ttlMs": 60_000, "documentSelfLink": "l06"}
    await at_any(group, session, "POST", LEASES, asked)
    link = f"{LEASES}/l06"
    attach = {"kind": "AttachRequest", "link": "/notes/l06"}
    before = await at_any(group, session, "PATCH", link, attach)
    group.kill(group.owner_of(link))  # The others serve reads without the owner.
    page = await at_any(group, session, "GET", link, None)
    assert page["attached"] == ["/notes/l06"]
    group.kill(_running(group))
    alone = _running(group)
    await _proves_nothing(session, alone, link)
    group.kill(alone)
    for node in group.nodes:
        group.start(node)
    group.wait_ready()

    async def is_granted_again() -> bool:
        page = await at_any(group, session, "GET", link, None)
        assert page["documentVersion"] == before["documentVersion"]
        return "stale" not in page and page["remainingMs"] > 50_000

    await until(is_granted_again, 20)
    await at_any(group, session, "DELETE", link, None)


async def _proves_nothing(session: Session, node: LocalNode, link: str) -> None:
    """Check that a minority calls a lease neither alive nor ended, within the deadline."""
    timeout = {"Docstore_Timeout_Ms": "1500"}
    body = {"kind": "KeepAliveRequest"}
    status, code = await ask(session, "PATCH", node.url + link, body, **timeout)
    assert (status, code in ("no-quorum", "no-owner")) == (503, True), code
    asked = {"leases": ["l06"]}
    url = f"{node.url}{LEASES}/keep-alive"
    page = {"alive": [], "gone": [], "unknown": ["l06"]}
    assert await ask(session, "POST", url, asked, **timeout) == (200, page)


@pytest.mark.thorough
async def test_l19_a_lease_that_is_kept_alive_survives_the_loss_of_its_owner(
    group: LocalCluster, session: Session
) -> None:
    await at_any(group, session, "POST", LEASES, {"ttlMs": TTL_MS, "documentSelfLink": "l19"})
    link, proofs = f"{LEASES}/l19", [clock()]
    keeping = asyncio.ensure_future(_keep_alive(group, session, proofs))
    for trouble in ("kill", "pause", "drain"):
        owner = group.owner_of(link, asked=_running(group))
        _lose(group, owner, trouble)
        lost_at = clock()

        async def is_kept_on(lost_at: float = lost_at) -> bool:
            return keeping.done() or proofs[-1] > lost_at + TTL_MS / 1000 * 1.1

        await until(is_kept_on, 30)
        await asyncio.to_thread(_bring_back, group, owner, trouble)
    was_ended = keeping.done()
    keeping.cancel()
    page = {"state": "alive"}
    while page["state"] == "alive":  # No client keeps it alive any more.
        page = await at_any(group, session, "GET", link, None)
    assert clock() >= proofs[-1] + TTL_MS / 1000
    assert not was_ended


async def _keep_alive(group: LocalCluster, session: Session, proofs: list[float]) -> None:
    """Keep a lease alive through all nodes until one answers 410."""
    headers = {"Docstore-Timeout-Ms": "1000"}
    body = {"kind": "KeepAliveRequest"}
    while True:
        for node in group.nodes:
            sent = clock()
            url = f"{node.url}{LEASES}/l19"
            timeout = aiohttp.ClientTimeout(total=1.0)
            with suppress(aiohttp.ClientError, TimeoutError):
                async with session.patch(
                    url, json=body, headers=headers, timeout=timeout
                ) as response:
                    if response.status == 200:
                        proofs.append(sent)
                    elif response.status == 410:
                        return
        await asyncio.sleep(0.1)


def _running(group: LocalCluster) -> LocalNode:
    return next(node for node in group.nodes if node.process is not None)


def _lose(group: LocalCluster, owner: LocalNode, trouble: str) -> None:
    assert owner.process is not None
    if trouble == "kill":
        group.kill(owner)
    else:
        owner.process.send_signal(signal.SIGSTOP if trouble == "pause" else signal.SIGTERM)


def _bring_back(group: LocalCluster, owner: LocalNode, trouble: str) -> None:
    if trouble == "pause":
        assert owner.process is not None
        owner.process.send_signal(signal.SIGCONT)
        return
    if owner.process is not None:
        owner.process.wait(timeout=20)
        owner.process = None
    group.start(owner)
    group.wait_ready()
