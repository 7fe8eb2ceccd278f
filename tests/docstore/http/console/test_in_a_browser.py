"""The console of a real node in a real browser: its views, and documents that cannot run scripts.

Where there is no Chromium these are skipped: `apt-get install chromium`.
"""

import json
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

from docstore.access.authenticator import Authenticator
from docstore.access.rules import rules_of
from docstore.http.access import Access
from docstore.http.server import HttpServer
from tests.docstore.access.tokens import digest
from tests.docstore.http.conftest import FAST
from tests.docstore.http.console.browser import EXECUTABLE, Browser
from tests.docstore.http.console.conftest import EXACT
from tests.docstore.http.console.world import put
from tests.docstore.http.single import SingleNode

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(EXECUTABLE is None, reason="there is no Chromium here"),
]
HOSTILE = (
    "<script>window.done = 1</script><img src=x onerror='window.done = 2'>"
    "<a href='javascript:window.done = 3'>x</a>"
)
WORDS = {
    "group": "1,024", "factories": "/core/snapshots", "list/notes": "9007199254740993",
    "list/core/subscriptions": "There is no document here", "document/notes/a": "takes over next",
    "new/notes": "The node chooses one", "new-factory": "JSON Schema",
    "changes": "Nothing has changed since", "streams": "provisioned",
    "stream/orders": "high watermark", "new-topic": "Needed in sync",
    "ownership/locks": "nightly run", "ownership/elections": "scheduler",
    "ownership/leases": "scheduler~host-8", "ownership/roles": "pricing",
    "ownership/groups": "orders", "holders/groups/etl": "not read yet",
    "holders/roles/pricing": "exclusive", "holders/locks/nightly run": "host-8",
    "holders/elections/scheduler": "Transfer", "holders/leases/scheduler~host-7": "Revoke",
    "subscriptions": "No receiver gets changes",
    "charts": "Latency", "interface": "/core/query-tasks",
}  # fmt: skip
"""View -> words that it shows."""


async def test_each_view_is_shown_without_an_error(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    for view, words in WORDS.items():
        await browser.shown(url, view)
        await browser.until(f"document.body.innerText.includes({words!r})")
    await browser.open(f"{url}/core/docs")
    await browser.until("document.querySelector('main h1')?.textContent === 'Interface'")
    await browser.run("document.querySelectorAll('details').forEach((it) => { it.open = true; })")
    await browser.until("document.body.innerText.includes('SynchronizeControlRequest')")
    assert browser.troubles == []


async def test_the_content_of_a_document_is_shown_as_text(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    await put(session, "/notes/hostile", json.dumps({HOSTILE: HOSTILE, "documentNote": [HOSTILE]}))
    for view in ("list/notes", "document/notes/hostile"):
        await browser.shown(url, view)
        await browser.until("document.querySelector('main').innerText.includes('<script>')")
    await browser.click("Change")
    await browser.until("document.querySelector('textarea').value.includes('<script>')")
    await browser.shown(url, "changes?prefix=/notes")
    await browser.until("document.body.innerText.includes('connected')")
    await put(session, "/notes/hostile", json.dumps({"again": HOSTILE}))
    await browser.until("document.querySelector('main').innerText.includes('onerror')")
    assert await browser.run("document.querySelectorAll('main img, main script').length") == 0
    assert await browser.run("window.done === undefined")
    assert browser.troubles == []


async def test_an_injected_script_does_not_run(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    """The policy is the second defence, should markup get into a page."""
    await browser.shown(url, "factories")
    await browser.run(f"document.querySelector('main').innerHTML = {json.dumps(HOSTILE)}")
    await browser.run("document.querySelector('main a').click()")
    await browser.until("document.querySelector('main img').complete")
    assert await browser.run("window.done === undefined")
    assert any("Content Security Policy" in each for each in browser.troubles)


async def test_a_changed_document_keeps_its_exact_numbers(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    await put(session, "/notes/b", EXACT)
    await browser.shown(url, "document/notes/b")
    await browser.click("Change")
    add = "document.querySelector('textarea').value = document.querySelector('textarea').value"
    await browser.run(add + ".replace('{', '{\"more\": true,')")
    await browser.click("Save")
    await browser.until("document.querySelector('dd').textContent === '1'")
    async with session.get("/notes/b") as answer:
        text = await answer.text()
    assert '"big": 9007199254740993' in text.replace(":9", ": 9")
    assert "1.50" in text
    assert '"more"' in text


async def test_a_concurrent_change_is_not_overwritten(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    await put(session, "/notes/c", "{}")
    await browser.shown(url, "document/notes/c")
    await browser.click("Change")
    await put(session, "/notes/c", '{"by": "another"}')
    await browser.click("Save")
    await browser.until("document.body.innerText.includes('It has changed since')")
    async with session.get("/notes/c") as answer:
        assert (await answer.json())["by"] == "another"


async def test_a_document_is_created_and_deleted(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    await browser.shown(url, "new/notes")
    await browser.run("document.querySelector('#field-name').value = 'made here'")
    await browser.click("Save")
    await browser.until("document.querySelector('h1').textContent === '/notes/made here'")
    await browser.click("Delete")
    await browser.until("document.querySelector('dialog')")
    await browser.press("Enter")  # The first button, which changes nothing.
    await browser.until("!document.querySelector('dialog')")
    await browser.click("Delete")
    await browser.answer("Delete")
    await browser.until("document.body.innerText.includes('It was deleted')")
    async with session.get("/notes/made%20here") as answer:
        assert answer.status == 404


async def test_documents_are_filtered_and_paged(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    for number in range(60):
        await put(session, f"/many/{number:02}", json.dumps({"n": number}))
    await browser.shown(url, "list/many")
    await browser.until("document.body.innerText.includes('50 documents of 60, more follow')")
    await browser.click("Next page")
    await browser.until("document.body.innerText.includes('10 documents of 60')")
    await browser.run("history.back()")
    await browser.until("document.body.innerText.includes('50 documents of 60, more follow')")
    await browser.run("document.querySelector('#field-filter').value = 'n ge 57'")
    await browser.run("document.querySelector('#field-order').value = 'n desc'")
    await browser.click("Find")
    await browser.until("document.body.innerText.includes('3 documents')")
    found = "[...document.querySelectorAll('td a')].map((it) => it.textContent)"
    assert await browser.run(found) == ["59", "58", "57"]
    await browser.run("document.querySelector('#field-filter').value = 'n ge'")
    await browser.click("Find")
    await browser.until("document.querySelector('.error').textContent.includes('is expected')")
    assert await browser.run("document.querySelector('#field-filter').value") == "n ge"


async def test_a_name_may_have_any_characters(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    name = "<b>a'\"?#&+ %25 ü"
    await put(session, f"/odd/{quote(name, safe='')}", '{"version": "first"}')
    await put(session, f"/odd/{quote(name, safe='')}", '{"version": "second"}')
    await browser.shown(url, "list/odd")
    await browser.click(name)
    await browser.until("document.querySelector('.json')?.textContent.includes('second')")
    assert await browser.run("document.querySelector('h1').textContent") == f"/odd/{name}"
    await browser.click("0")
    await browser.until("document.querySelector('.json')?.textContent.includes('first')")
    await browser.click("The current version")
    await browser.until("document.querySelector('.json')?.textContent.includes('second')")


async def test_the_interface_is_searched(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    await browser.shown(url, "interface")
    await browser.run("document.querySelector('#words').value = 'put /notes'")
    await browser.run("document.querySelector('#words').dispatchEvent(new Event('input'))")
    await browser.until("document.querySelectorAll('details').length === 1")
    await browser.run("document.querySelector('details').open = true")
    await browser.until("document.body.innerText.includes('curl -X PUT')")


async def test_the_console_is_usable_by_keys_alone(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    await browser.shown(url, "streams")
    await browser.press("Tab")
    assert await browser.run("document.activeElement.textContent") == "To the content"
    await browser.press("Enter")
    assert await browser.run("document.activeElement.id") == "main"
    for expected in ("Create a topic", "table", "orders"):  # A table that keys can scroll.
        await browser.press("Tab")
        focused = "(it => it.getAttribute('aria-label') ?? it.textContent)(document.activeElement)"
        assert await browser.run(focused) == expected
    await browser.press("Enter")
    await browser.until("document.querySelector('h1').textContent === 'orders'")
    assert await browser.run("document.activeElement.id") == "main"


async def test_the_console_fits_on_a_narrow_screen(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    await browser.resize(360)
    for view in WORDS:
        await browser.shown(url, view)
        wide = "document.documentElement.scrollWidth"
        assert await browser.run(wide) <= 360, view


async def test_a_token_is_requested_and_kept_in_its_tab(browser: Browser) -> None:
    rules = f"[roles.r]\n'/' = 'admin'\n[users.u]\ntokens = ['{digest('right')}']\nroles = ['r']"
    asks = Access(Authenticator(rules_of(rules)))
    server = HttpServer(SingleNode(), FAST, access=asks)
    url = f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}"
    await browser.open(f"{url}/core/ui#/list/core/factories")
    for token, text in (("wrong", "rejects this token"), ("nö ASCII", "printable ASCII")):
        await browser.write("dialog input", token)
        await browser.press("Enter")
        await browser.until(f"document.querySelector('dialog .error').innerText.includes({text!r})")
        assert await browser.run("document.querySelector('dialog input').value") == token
    await browser.write("dialog input", "right")
    await browser.press("Enter")
    await browser.until("!document.querySelector('dialog')")
    await browser.until("document.querySelector('h1')?.textContent === '/core/factories'")
    # OPTIONS is sent again, with the token.
    await browser.until("document.querySelector('main').innerText.includes('New document')")
    kept: dict[str, Any] = await browser.run("({...sessionStorage})")
    kept.pop("docstore-members", None)
    assert list(kept.values()) == ["right"]
    assert await browser.run("localStorage.length + document.cookie.length") == 0
    assert "right" not in await browser.run("location.href")
    await server.stop(0.1)


async def test_a_node_that_comes_back_is_shown_again(browser: Browser) -> None:
    server = HttpServer(SingleNode(), FAST)
    port = await server.start("127.0.0.1", 0)
    url = f"http://127.0.0.1:{port}"
    await browser.open(f"{url}/core/ui#/list/core/factories")
    await browser.until("document.querySelector('h1')?.textContent === '/core/factories'")
    await server.stop(0.1)
    await browser.run("location.hash = '#/list/core/examples'")
    await browser.until("document.body.innerText.includes('The node does not answer')")
    server = HttpServer(SingleNode(), FAST)
    await server.start("127.0.0.1", port)
    await browser.until("document.querySelector('h1')?.textContent === '/core/examples'")
    await server.stop(0.1)
