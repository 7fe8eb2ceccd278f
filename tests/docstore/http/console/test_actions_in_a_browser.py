"""Actions on locks, elections, leases, groups and subscriptions, each after a confirmation."""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import aiohttp
import pytest
from yarl import URL

from tests.docstore.http.console.browser import EXECUTABLE, Browser
from tests.docstore.http.console.world import HOUR_MS, ask
from tests.docstore.subscriptions.receiver import receiving

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(EXECUTABLE is None, reason="there is no Chromium here"),
]
Session = aiohttp.ClientSession
TTL_MS = 4_000


async def queue(
    session: Session, kind: str, name: str, *candidates: str, ttl_ms: int = HOUR_MS
) -> None:
    """Queue candidates for a lock or an election. ttl_ms: of the first one's lease."""
    request = {"locks": "AcquireRequest", "elections": "CampaignRequest"}[kind]
    for candidate in candidates:
        lease = {"documentSelfLink": f"{name}~{candidate}", "ttlMs": ttl_ms, "holder": candidate}
        await ask(session, "POST", "/core/leases", lease, 201)
        asked = {"kind": request, "candidate": candidate, "lease": f"{name}~{candidate}"}
        await ask(session, "PATCH", f"/core/{kind}/{name}", asked, 200, 202)
        ttl_ms = HOUR_MS


async def page(session: Session, path: str) -> Any:
    async with session.get(URL(path, encoded=True)) as answer:
        return await answer.json(content_type=None)


async def until(session: Session, path: str, condition: Callable[[Any], bool]) -> Any:
    """Return a page once a condition holds for it."""
    async with asyncio.timeout(20):
        while not condition(found := await page(session, path)):
            await asyncio.sleep(0.02)
    return found


def holder_of(found: Any) -> Any:
    return (found["holder"] or {}).get("candidate")


async def test_a_lock_is_broken_and_a_candidate_withdrawn(
    browser: Browser, url: str, session: Session
) -> None:
    await queue(session, "locks", "jobs", "a", "b", "c")
    await browser.shown(url, "ownership/locks")
    await browser.click("jobs")
    await browser.click("Withdraw c")
    await browser.answer("Cancel")
    await browser.click("Break jobs")
    await browser.press("Enter")  # The first button, which changes nothing.
    await browser.until("!document.querySelector('dialog')")
    found = await page(session, "/core/locks/jobs")
    assert (holder_of(found), [each["candidate"] for each in found["queue"]]) == ("a", ["b", "c"])
    await browser.click("Withdraw c")
    await browser.answer("Withdraw")
    await until(session, "/core/locks/jobs", lambda found: len(found["queue"]) == 1)
    await browser.click("Break jobs")
    await browser.answer("End it now")
    await until(session, "/core/locks/jobs", lambda found: holder_of(found) == "b")
    await browser.until("document.querySelector('dd').textContent === 'b'")
    await browser.click("Break jobs")
    await browser.answer("Let it expire")
    await browser.until("document.querySelector('main').innerText.includes('expiring')")
    assert (await page(session, "/core/leases/jobs~b"))["state"] == "expiring"
    assert holder_of(await page(session, "/core/locks/jobs")) == "b"  # Until its lease has ended.
    await browser.click("Break jobs")
    await browser.answer("End it now")
    await until(session, "/core/locks/jobs", lambda found: found["holder"] is None)
    await browser.click("Delete jobs")
    await browser.answer("Delete")
    await browser.until("document.querySelector('h1').textContent === 'Ownership'")
    assert (await page(session, "/core/locks/jobs"))["status"] == 404


async def test_a_leader_transfers_and_resigns(browser: Browser, url: str, session: Session) -> None:
    link = "/core/elections/shards"
    await queue(session, "elections", "shards", "a", "b", "c", "d", ttl_ms=TTL_MS)
    alive = asyncio.create_task(_keep_alive(session, "/core/leases/shards~a"))
    await browser.shown(url, "holders/elections/shards")
    await browser.click("Transfer to c")
    await browser.run("document.querySelectorAll('dialog button')[1].click()")
    await browser.until("document.querySelector('dialog').innerText.includes('a stops within 3 s')")
    assert (
        holder_of(await page(session, link)) == "a"
    )  # It holds until its lease has expired by its own clock.
    await until(session, link, lambda found: holder_of(found) == "c")  # And b still waits.
    assert await alive == HTTPStatus.GONE
    await browser.until("document.querySelector('dd').textContent === 'c'")
    await browser.click("Transfer to d")
    await browser.answer("Now")
    await until(session, link, lambda found: holder_of(found) == "d")
    await browser.click("Resign shards")
    await browser.answer("End it now")
    await until(session, link, lambda found: holder_of(found) == "b")


async def _keep_alive(session: Session, link: str) -> int:
    """Keep a lease alive until it is refused; return the status of the refusal."""
    async with asyncio.timeout(20):
        while True:
            async with session.patch(link, json={"kind": "KeepAliveRequest"}) as answer:
                if answer.status != 200:
                    return answer.status
            await asyncio.sleep(0.05)


async def test_a_lease_is_revoked(browser: Browser, url: str, session: Session) -> None:
    lease = {"documentSelfLink": "mine", "ttlMs": HOUR_MS}
    await ask(session, "POST", "/core/leases", lease, 201)
    note = {"documentLeaseLink": "/core/leases/mine"}
    await ask(session, "PUT", "/notes/leased", note, 201)
    await browser.shown(url, "ownership/leases")
    await browser.click("mine")
    await browser.click("/notes/leased")
    await browser.until("document.querySelector('h1').textContent === '/notes/leased'")
    await browser.shown(url, "holders/leases/mine")
    await browser.click("Revoke this lease")
    await browser.answer("Let it expire")
    await browser.until("document.querySelector('dd').textContent === 'expiring'")
    await browser.click("Revoke this lease")
    buttons = "[...document.querySelectorAll('dialog button')].map((it) => it.textContent)"
    assert await browser.run(buttons) == ["Cancel", "End it now"]
    await browser.answer("End it now")
    await until(session, "/notes/leased", lambda found: found.get("status") == 404)


async def test_a_member_is_removed_and_an_offset_reset(
    browser: Browser, url: str, session: Session
) -> None:
    link, offset = "/core/groups/readers", "/core/groups/readers/offsets/orders/1"
    group = {"name": "readers", "topics": ["orders"], "sessionMs": 5_000}
    await ask(session, "POST", "/core/groups", group, 201)
    end = await _append(session)
    await ask(session, "POST", f"{link}/members", {"member": "m-1"}, 201)
    await browser.shown(url, "holders/groups/readers")
    await browser.click("Remove m-1")
    await browser.answer("Remove")
    await browser.until("document.body.innerText.includes('No process is a member now')")
    await browser.click("Reset orders/1")
    await browser.write("dialog input", "99")
    await browser.run("document.querySelectorAll('dialog button')[1].click()")
    await browser.until("document.querySelector('dialog .error').textContent.includes('99')")
    assert await browser.run("document.querySelector('dialog input').value") == "99"
    await browser.write("dialog input", str(end - 2))
    await browser.answer("Reset")
    await until(session, offset, lambda found: found.get("offset") == end - 2)
    await browser.until("document.querySelector('main').innerText.includes('2 records')")
    await browser.click("Delete readers")
    await browser.answer("Delete")
    await browser.until("document.querySelector('h1').textContent === 'Ownership'")
    assert (await page(session, link))["status"] == 404


async def _append(session: Session) -> int:
    """Append records to partition 1 of the topic, once its leader commits; return its end."""
    records = {"records": [{"value": n, "partition": 1} for n in range(5)]}
    async with asyncio.timeout(20):
        while True:
            async with session.post("/core/streams/orders/records", json=records) as answer:
                if answer.status == HTTPStatus.OK:
                    break
    partition = "/core/streams/orders/partitions/1"
    return int((await until(session, partition, lambda found: found.get("hw")))["hw"])


async def test_a_subscription_is_paused_resumed_and_deleted(
    browser: Browser, url: str, session: Session
) -> None:
    at = "/notes/subscriptions"
    async with receiving() as receiver:
        await ask(session, "POST", at, {"callback": receiver.url}, 201)
        await browser.shown(url, "subscriptions")
        for title, state in (("Pause", "paused"), ("Resume", "active")):
            await browser.click(f"{title} the subscription to /notes")
            await browser.answer(title)
            found = await until(
                session,
                f"{at}?expand",
                lambda found, state=state: [
                    each["state"] for each in found["documents"].values()
                ] == [state],
            )  # fmt: skip
            assert len(found["documents"]) == 1
        await browser.click("Delete the subscription to /notes")
        await browser.answer("Delete")
        await browser.until("document.body.innerText.includes('No receiver gets changes')")
    assert (await page(session, at))["documentLinks"] == []
