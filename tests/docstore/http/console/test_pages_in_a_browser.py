"""The console by mouse and keys: actions, and input that is kept when a request fails."""

import asyncio
import csv
import json
import os
from pathlib import Path

import aiohttp
import pytest

from docstore.client import LocalCluster
from docstore.http.server import HttpServer
from tests.docstore.http.conftest import FAST
from tests.docstore.http.console.browser import EXECUTABLE, NAME_OF_FOCUSED, Browser
from tests.docstore.http.console.test_in_a_browser import WORDS
from tests.docstore.http.console.world import ask, furnish, put
from tests.docstore.http.single import SingleNode

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(EXECUTABLE is None, reason="there is no Chromium here"),
]
AXE = os.environ.get("AXE_SCRIPT", "")
VIOLATIONS = """axe.run(document).then((found) => found.violations.map((each) =>
    `${each.id}: ${each.nodes[0].html} ${each.nodes[0].failureSummary}`))"""
MODES = [(1280, "light"), (1280, "dark"), (375, "light"), (375, "dark")]
BIG = {"films": [{"title": f"film {n}", "cast": ["one", "two"]} for n in range(18_000)]}
PIXELS_MAX = 3_000


async def test_a_refused_form_keeps_its_input(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    await browser.shown(url, "new-factory")
    await browser.write("#field-path", "no slash")
    await browser.write("#field-schema", '{"type": ')
    await browser.click("Declare")
    await browser.until("document.querySelector('.row:has(#field-schema) .error').textContent")
    await browser.write("#field-schema", '{"type": "no such type"}')
    await browser.click("Declare")
    await browser.until("document.querySelector('.row:has(#field-path) .error').textContent")
    assert await browser.run("document.activeElement.id") == "field-path"
    assert await browser.run("document.querySelector('#field-path').value") == "no slash"
    await browser.write("#field-path", "/made")
    await browser.click("Declare")
    await browser.until("document.querySelector('.row:has(#field-schema) .error').textContent")
    await browser.write("#field-schema", '{"required": ["n"]}')
    await browser.click("Declare")
    await browser.until("document.querySelector('h1').textContent === '/made'")
    await browser.click("New document")
    await browser.write("#field-name", "a")
    await browser.write("#field-text", '{"m": 1.50}')
    await browser.click("Save")
    await browser.until("document.querySelector('main').innerText.includes(\"'n' is a required\")")
    assert await browser.run("document.querySelector('#field-text').value") == '{"m": 1.50}'
    await browser.write("#field-text", '{"n": 1.50}')
    await browser.click("Save")
    await browser.until("document.querySelector('h1').textContent === '/made/a'")


async def test_only_allowed_actions_are_offered(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    await browser.shown(url, "document/core/locks/nightly run")
    await browser.until("document.querySelector('main').innerText.includes('host-7')")
    titles = "[...document.querySelectorAll('.buttons button')].map((it) => it.textContent)"
    assert await browser.run(titles) == ["Delete", "Download"]
    await browser.click("Delete")
    await browser.run("document.querySelectorAll('dialog button')[1].click()")
    await browser.until(
        "document.querySelector('dialog .error').textContent.includes('candidates')"
    )
    await browser.answer("Cancel")
    await browser.shown(url, "list/core/subscriptions")
    assert "New document" not in await browser.text()


async def test_services_are_listed_with_kind_documents_and_indexes(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    declared = {"path": "/people", "kind": "hr:Person", "indexes": ["name", "city, age desc"]}
    await ask(session, "POST", "/core/factories", declared, 201)
    for number in range(3):
        await put(session, f"/people/{number}", "{}")
    await browser.shown(url, "factories")
    cells = "[...document.querySelectorAll('td')].filter((it) => it.innerText === '{}')[0]"
    row = f"[...{cells}.parentElement.children].map((it) => it.innerText)"
    people = row.replace("{}", "/people")
    await browser.until(f"{people}[2] === '3'")  # The count follows after the page.
    shown = await browser.run(people)
    assert shown[:5] == ["/people", "hr:Person", "3", "3", "name; city, age desc"]
    service = await browser.run(row.replace("{}", "/accounts"))
    assert service[1] == "bank:Account, service examples.bank_accounts:Accounts"


async def test_a_refreshed_page_keeps_focus_and_scroll_position(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    await browser.resize(375)
    await browser.shown(url, "group")
    shown = "document.querySelector('.wide')"
    await browser.until(shown)
    await browser.run(f"{shown}.scrollLeft = 80; {shown}.focus(); {shown}.isOld = true")
    await browser.until(f"!{shown}.isOld")
    assert await browser.run(f"[{shown}.scrollLeft, document.activeElement === {shown}]") == [
        80, True,
    ]  # fmt: skip
    await browser.shown(url, "holders/elections/scheduler")
    await browser.tab_to("Transfer to host-8")
    await browser.run("document.activeElement.isOld = true")
    await browser.until("!document.activeElement.isOld")
    assert await browser.run(NAME_OF_FOCUSED) == "Transfer to host-8"


async def test_unsaved_text_is_discarded_only_on_confirmation(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    await browser.shown(url, "list/notes")
    await browser.click("New document")
    await browser.write("#field-text", '{"unsaved": true}')
    for leave in ("document.querySelector('nav a').click()", "history.back()"):
        await browser.run(leave)
        await browser.until("document.querySelector('dialog')")
        await browser.press("Enter")  # The first button, which stays.
        await browser.until("!document.querySelector('dialog')")
        kept = await browser.run("document.querySelector('#field-text').value")
        assert kept == '{"unsaved": true}'
        assert await browser.run("location.hash") == "#/new/notes"
    await browser.click("Group")
    await browser.until("document.querySelector('dialog button[value=leave]')")
    await browser.run("document.querySelector('dialog button[value=leave]').click()")
    await browser.until("document.querySelector('h1')?.textContent === 'Group'")


async def test_an_unreachable_node_is_shown_with_links_to_others(browser: Browser) -> None:
    with LocalCluster(3) as group:
        url, *others = group.urls
        async with aiohttp.ClientSession(url) as session:
            await furnish(session)
        await browser.shown(url, "new/notes")
        await browser.until("sessionStorage.getItem('docstore-members')?.includes('n3')")
        await browser.write("#field-text", '{"text": "typed before"}')
        group.kill(group.nodes[0])
        await browser.click("Save")
        await browser.until("document.querySelector('.banner')")
        links = await browser.run(
            "[...document.querySelectorAll('.banner a')].map((it) => it.href)"
        )
        assert links == [f"{other}/core/ui#/new/notes" for other in others]
        kept = await browser.run("document.querySelector('#field-text').value")
        assert kept == '{"text": "typed before"}'
        await browser.run("location.hash = '#/streams'")
        await browser.until("document.querySelector('dialog button[value=leave]')")
        await browser.run("document.querySelector('dialog button[value=leave]').click()")
        await browser.until("document.querySelector('.banner a').href.endsWith('#/streams')")


async def test_a_banner_disappears_when_the_node_answers_again(browser: Browser) -> None:
    server = HttpServer(SingleNode(), FAST)
    port = await server.start("127.0.0.1", 0)
    await browser.shown(f"http://127.0.0.1:{port}", "list/core/examples")
    await server.stop(0.1)
    await browser.until("document.querySelector('.banner')")  # Without a click.
    server = HttpServer(SingleNode(), FAST)
    await server.start("127.0.0.1", port)
    await browser.until("!document.querySelector('.banner')")
    await server.stop(0.1)


async def test_a_large_document_is_shown_folded(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    text = json.dumps(BIG)
    assert len(text) > 830_000
    await put(session, "/notes/large", text)
    await browser.shown(url, "document/notes/large")
    await browser.until("document.querySelector('.json')?.innerText.includes('18,000 elements')")
    high = "document.documentElement.scrollHeight"
    assert await browser.run(high) < PIXELS_MAX
    await browser.run("document.querySelectorAll('.json summary')[1].click()")
    await browser.until("document.body.innerText.includes('100 more of 17,900')")
    await browser.click("100 more of 17,900")
    await browser.until("document.body.innerText.includes('100 more of 17,800')")
    films = "document.querySelectorAll('.json > details > .inside > details > .inside > details')"
    assert await browser.run(f"{films}.length") == 200
    opened = "document.querySelectorAll('.json details')[1].open"
    await browser.run("document.querySelectorAll('.json summary')[1].focus()")
    await browser.press("Enter")  # Keys fold members too.
    await browser.until(f"!{opened}")
    await browser.click("Change")
    lines = "document.querySelector('textarea').value.split('\\n').length"
    assert await browser.run(lines) == 3  # A line for each member would take a browser seconds.
    await browser.click("Save")  # Spaces do not count towards the limit of a body.
    await browser.until("document.querySelector('dd')?.textContent === '1'")
    await browser.shown(url, "list/notes")
    await browser.until("document.querySelector('td.excerpt')?.textContent.length <= 160")
    assert await browser.run(high) < PIXELS_MAX


async def test_json_is_tokenised_without_parsing_its_values(browser: Browser, url: str) -> None:
    await browser.shown(url, "streams")
    for text, names, tidy in (
        ("{}", [], "{}"),
        (' { "a" : 1.50 ,\n"b":[ ] } ', ["a", "b"], '{\n  "a": 1.50,\n  "b": []\n}'),
        (
            '{"{,:\\"":"]}","b":[9007199254740993,{}]}', ['{,:"', "b"],
            '{\n  "{,:\\"": "]}",\n  "b": [\n    9007199254740993,\n    {}\n  ]\n}',
        ),
    ):  # fmt: skip
        found = await browser.run(f"""import('/core/ui/json.js').then((it) => [
            it.membersOf({json.dumps(text)}).map(([name]) => JSON.parse(name)),
            it.written(it.membersOf({json.dumps(text)})), it.indented({json.dumps(text)}),
            it.compact(it.indented({json.dumps(text)})), it.compact({json.dumps(text)})])""")
        assert found[0] == names
        assert json.loads(found[1]) == json.loads(text)
        assert found[2] == tidy
        assert found[3] == found[4]


async def test_topics_and_records_are_created_by_mouse(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    await browser.shown(url, "streams")
    await browser.click("Create a topic")
    await browser.write("#field-name", "no/name")
    await browser.click("Create")
    await browser.until("document.querySelector('.row:has(#field-name) .error').textContent")
    await browser.write("#field-name", "made")
    await browser.write("#field-partitions", "3")
    await browser.click("Create")
    await browser.until("document.querySelector('h1').textContent === 'made'")
    await browser.until("document.body.innerText.includes('This partition has no records')")
    await browser.click("Append a record")
    await browser.write("#field-partition", "2")
    await browser.write("#field-value", '{"big": 9007199254740993}')
    await browser.click("Append")
    await browser.click("offset 0 of partition 2")
    await browser.until("document.body.innerText.includes('9007199254740993')")


async def test_columns_are_chosen_and_documents_exported(
    browser: Browser, url: str, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    for number in range(3):
        note = {"n": number, "name": f'a "{number}", b', "rest": [1.5]}
        await put(session, f"/odd/{number}", json.dumps(note))
    kept = tmp_path / "kept"
    await browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(kept))
    await browser.shown(url, "list/odd?filter=n+gt+0")
    await browser.click("Export NDJSON")
    lines = (await _kept(kept / "odd.ndjson")).splitlines()
    assert [json.loads(line)["n"] for line in lines] == [1, 2]
    assert '"rest":[1.5]' in lines[0]
    await browser.click("Columns")
    for name in ("name", "documentVersion"):
        await browser.run(f"document.querySelector('.box input[value={name}]').click()")
    await browser.click("Show these")
    heads = "[...document.querySelectorAll('th')].map((it) => it.textContent).join()"
    await browser.until(f"{heads} === 'document,name,version'")
    await browser.click("Export CSV")
    rows = list(csv.reader((await _kept(kept / "odd.csv")).splitlines()))
    assert sorted(rows[0]) == ["documentSelfLink", "documentVersion", "name"]
    assert [row[0] for row in rows[1:]] == ["/odd/1", "/odd/2"]
    assert 'a "1", b' in rows[1]


async def _kept(file: Path) -> str:
    async with asyncio.timeout(20):
        while not file.exists():  # noqa: ASYNC240 - a file of the browser
            await asyncio.sleep(0.02)
    return file.read_text("utf-8")  # noqa: ASYNC240 - a few lines


async def test_charts_show_recent_writes(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    await browser.shown(url, "charts")  # A single node has no peer that lags.
    await browser.until("document.querySelectorAll('canvas').length === 3")
    writes = "parseFloat(document.querySelector('.legend li').textContent.split(' ')[1])"
    async with asyncio.timeout(20):
        while not await browser.run(f"{writes} > 0"):
            await put(session, "/notes/often", json.dumps({"n": 1}))
    assert browser.troubles == []


@pytest.mark.skipif(not AXE, reason="AXE_SCRIPT names no axe.min.js")
@pytest.mark.parametrize(("width", "scheme"), MODES)
async def test_all_pages_are_accessible(
    browser: Browser, url: str, session: aiohttp.ClientSession, width: int, scheme: str
) -> None:
    axe = await asyncio.to_thread(Path(AXE).read_text, "utf-8")
    await browser.resize(width, scheme)
    await browser.open(f"{url}/core/ui")
    await browser.until("document.querySelector('main h1')")
    await browser.run(f"{axe};true")
    for view, words in WORDS.items():
        await browser.shown(url, view)
        await browser.until(f"document.body.textContent.includes({words!r})")
        assert await browser.run(VIOLATIONS) == [], view
    await browser.shown(url, "holders/locks/nightly run")
    await browser.click("Break nightly run")
    assert await browser.run(VIOLATIONS) == [], "a question"
    await browser.answer("Cancel")
    await browser.shown(url, "new-factory")
    await browser.write("#field-path", "no slash")
    await browser.click("Declare")
    await browser.until("document.querySelector('.row:has(#field-path) .error').textContent")
    assert await browser.run(VIOLATIONS) == [], "a form with an error"
