"""The forms of the console: by keys alone, and with their input after each kind of failure."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple

import aiohttp
import pytest

from docstore.client import LocalCluster
from tests.docstore.http.console.browser import EXECUTABLE, Browser, browsing
from tests.docstore.http.console.world import furnish, put

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(EXECUTABLE is None, reason="there is no Chromium here"),
]
NO_ANSWER = "/not answer|connecting again/.test(document.querySelector('main').innerText)"
HEADING = "document.querySelector('h1')?.textContent"


async def test_documents_are_created_changed_and_deleted_by_keys(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    await browser.shown(url, "factories")
    await browser.tab_to("Declare a factory")
    await browser.press("Enter")
    await browser.until(f"{HEADING} === 'Declare a factory'")
    await browser.type_into("Path", "/keys")
    await browser.tab_to("Level")
    await browser.press("ArrowDown")  # Level 2.
    await browser.type_into("JSON Schema", '{"required": ["n"]}')
    await browser.type_into("Indexes", "n\nname desc")
    await browser.tab_to("Updates must name the version that they are based on")
    await browser.press("Space")
    await browser.tab_to("Declare")
    await browser.press("Enter")
    await browser.until(f"{HEADING} === '/keys'")
    async with session.get("/core/factories/keys") as answer:
        declared = await answer.json()
    assert "STRICT_UPDATE_CHECKING" in declared["options"]
    assert "ENFORCE_QUORUM" not in declared["options"]
    assert declared["schema"] == {"required": ["n"]}
    assert declared["indexes"] == ["n", "name desc"]
    await browser.tab_to("New document")
    await browser.press("Enter")
    await browser.until(f"{HEADING}.startsWith('New document')")
    await browser.type_into("Name", "a")
    await browser.type_into("JSON", '{"m": 1}')
    await browser.press("Tab")
    assert await browser.run("document.activeElement.textContent") == "Save"
    await browser.press("Enter")
    await browser.until("document.querySelector('main').innerText.includes(\"'n' is a required\")")
    await browser.type_into("JSON", '{"n": 1.50}')
    await browser.tab_to("Save")
    await browser.press("Enter")
    await browser.until(f"{HEADING} === '/keys/a'")
    await browser.tab_to("Change")
    await browser.press("Enter")
    await browser.until("document.activeElement.id === 'field-text'")
    await browser.press("KeyA", control=True)
    await browser.call("Input.insertText", text='{"n": 2}')
    await browser.tab_to("Save")
    await browser.press("Enter")
    await browser.until("document.querySelector('dd')?.textContent === '1'")
    await browser.tab_to("Delete /keys/a")
    await browser.press("Space")
    await browser.until("document.activeElement.textContent === 'Cancel'")
    await browser.press("Tab")
    await browser.press("Enter")
    await browser.until("document.querySelector('main').innerText.includes('It was deleted')")


async def test_topics_and_records_are_created_by_keys(
    browser: Browser, url: str, session: aiohttp.ClientSession
) -> None:
    await browser.shown(url, "streams")
    await browser.tab_to("Create a topic")
    await browser.press("Enter")
    await browser.until(f"{HEADING} === 'Create a topic'")
    await browser.type_into("Name", "typed")
    await browser.type_into("Partitions", "2")
    await browser.press("Enter")  # In a field, Enter acts as the button.
    await browser.until(f"{HEADING} === 'typed'")
    await browser.until("document.querySelector('details')")
    await browser.tab_to("Append a record")
    await browser.press("Space")
    await browser.type_into("Key", "k")
    await browser.type_into("Partition", "1")
    await browser.type_into("Value", '{"big": 9007199254740993}')
    await browser.tab_to("Append")
    await browser.press("Enter")
    await browser.until("document.querySelector('main').innerText.includes('Appended at')")
    await browser.tab_to("offset 0 of partition 1")
    await browser.press("Enter")
    await browser.until("document.querySelector('main').innerText.includes('9007199254740993')")


class Form(NamedTuple):
    """A form: its view, clicks that open it, fields with their input, and its button."""

    view: str
    clicks: Sequence[str]
    fields: dict[str, str]
    button: str
    error: str = ""
    """Part of the node's refusal of this input."""
    at: str = ""
    """The field at which the refusal is shown; "" for the first."""


TEXT = '{"typed": 1.50}'
FORMS = {
    "factory": Form("new-factory", (), {"path": "/notes"}, "Declare", "exists"),
    "topic": Form("new-topic", (), {"name": "orders"}, "Create", "exists"),
    "record": Form(
        "stream/orders", ("Append a record",), {"value": TEXT, "key": "k" * 70_000}, "Append",
        "65536", "key",
    ),
    "document": Form("new/notes", (), {"name": "a", "text": TEXT}, "Save", "exists"),
    "change": Form("document/notes/a", ("Change",), {"text": '{"a": 1, "a": 2}'}, "Save", "a"),
    "open": Form("factories", (), {"link": "/notes/nowhere"}, "Open a document", "/notes/nowhere"),
    "search": Form("list/notes", (), {"filter": "n eq", "order": "n"}, "Find", "expected"),
    "order": Form("list/notes", (), {"order": "n sideways"}, "Find", "sideways"),
    "changes": Form("changes", (), {"prefix": "no path"}, "Follow", "prefix"),
}  # fmt: skip


async def fill_in(browser: Browser, url: str, form: Form) -> None:
    await browser.shown(url, form.view)
    for title in form.clicks:
        await browser.click(title)
    for name, text in form.fields.items():
        await browser.write(f"#field-{name}", text)


async def check_input_is_kept(browser: Browser, form: Form) -> None:
    """Check that the form keeps its input."""
    for name, text in form.fields.items():
        assert await browser.run(f"document.querySelector('#field-{name}').value") == text


@pytest.mark.parametrize("name", FORMS)
async def test_a_refusal_is_shown_beside_its_field(
    browser: Browser, url: str, session: aiohttp.ClientSession, name: str
) -> None:
    form = FORMS[name]
    at = form.at or next(iter(form.fields))
    await fill_in(browser, url, form)
    await browser.click(form.button)
    error = f"document.querySelector('.row:has(#field-{at}) .error')?.textContent"
    await browser.until(f"{error}?.includes({json.dumps(form.error)})")
    assert await browser.run("document.activeElement.id") == f"field-{at}"
    await check_input_is_kept(browser, form)


@pytest.fixture(scope="module")
def group() -> Iterator[LocalCluster]:
    with LocalCluster(1) as found:
        yield found


@pytest.fixture
async def alone(group: LocalCluster) -> str:
    """Return the address of a node that a test may kill."""
    url = group.urls[0]
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(url, headers=headers) as session:
        await furnish(session)
        await put(session, "/notes/a", "{}")
    return url


async def test_each_form_keeps_its_input_if_the_node_is_unreachable(
    address: str, group: LocalCluster, alone: str
) -> None:
    async with AsyncExitStack() as stack:
        pages = []
        for form in FORMS.values():
            page = await stack.enter_async_context(browsing(address))
            await fill_in(page, alone, form)
            await page.until("document.querySelector('#node').textContent")
            pages.append((page, form))
        group.kill(group.nodes[0])
        try:
            for page, form in pages:
                await page.click(form.button)
            for page, form in pages:
                await page.until("document.querySelector('.banner')")
                words = (
                    "/not answer|connecting again/.test(document.querySelector('main').innerText)"
                )
                await page.until(words)
                await check_input_is_kept(page, form)
        finally:
            group.start(group.nodes[0])
            await asyncio.to_thread(group.wait_ready)
        for page, form in pages:
            await page.until("!document.querySelector('.banner')")
            await check_input_is_kept(page, form)


async def test_a_confirmation_stays_open_if_the_node_is_unreachable(
    browser: Browser, group: LocalCluster, alone: str
) -> None:
    await browser.shown(alone, "document/notes/a")
    await browser.click("Delete")
    group.kill(group.nodes[0])
    try:
        await browser.run("document.querySelectorAll('dialog button')[1].click()")
        error = "document.querySelector('dialog .error').textContent"
        await browser.until(f"{error}.includes('may have done this')")
    finally:
        group.start(group.nodes[0])
        await asyncio.to_thread(group.wait_ready)
    await browser.answer("Delete")
    await browser.until("document.querySelector('main').innerText.includes('It was deleted')")
