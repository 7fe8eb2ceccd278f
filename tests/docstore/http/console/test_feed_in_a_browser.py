"""`feed.js` in a page of another site: it follows a condition while nodes are killed."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from docstore.client import Client, LocalCluster
from tests.docstore.http.console.browser import EXECUTABLE, Browser
from tests.docstore.watching import start_all

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(EXECUTABLE is None, reason="there is no Chromium here"),
]
PAGE = """<!doctype html><title>stock</title><ul></ul><script type="module">
const urls = URLS;
const { follow } = await import(`${urls[0]}/core/ui/feed.js`);
const rows = new Map();
const stop = window.stop = new AbortController();
const options = { path: ["/stock", "/orders"], where: "count > 4", before: true,
                  signal: stop.signal };
window.events = [];
for await (const change of follow(urls, options)) {
  window.events.push([change.event, change.link, change.before?.count ?? null]);
  if (change.event === "leave") rows.delete(change.link);
  else rows.set(change.link, change.body.count);
  const shown = [...rows].sort().map(([link, count]) => `${link} ${count}`);
  document.querySelector("ul").textContent = shown.join(", ");
  window.position = change.position;
}
window.ended = true;
</script>"""
SHOWN = "document.querySelector('ul').textContent"


@pytest.fixture
async def site() -> AsyncIterator[tuple[str, list[str]]]:
    """Serve a page of another site; return its URL, and the list with the page."""
    pages: list[str] = []

    async def page(request: web.BaseRequest) -> web.Response:
        return web.Response(text=pages[-1], content_type="text/html")

    runner = web.ServerRunner(web.Server(page))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}", pages
    await runner.cleanup()


async def test_a_page_of_another_site_follows_a_feed_while_nodes_are_killed(
    browser: Browser, site: tuple[str, list[str]], tmp_path: Path
) -> None:
    origin, pages = site
    settings = ["--allowed-origins", origin]
    with LocalCluster(3, tmp_path / "nodes", settings=settings) as group:
        async with Client(group.urls) as store:
            for path in ("/stock", "/orders"):
                await store.declare(path)
            await store.put("/stock/tea", {"count": 1})
            pages.append(PAGE.replace("URLS", str(group.urls)))
            await browser.open(origin)
            await browser.until("window.events")
            async with asyncio.timeout(60):  # The page sees no changes from before it follows.
                while await browser.run("window.events.length") == 0:
                    await store.put("/stock/tea", {"count": 5})
                    await store.put("/stock/tea", {"count": 1})
            await store.put("/stock/tea", {"count": 7})
            await store.put("/orders/1", {"count": 9})
            await browser.until(f"{SHOWN} === '/orders/1 9, /stock/tea 7'")
            for node in group.nodes:
                group.kill(node)
                count = 10 + group.nodes.index(node)
                await store.put("/stock/tea", {"count": count})
                await browser.until(f"{SHOWN} === '/orders/1 9, /stock/tea {count}'")
                await asyncio.to_thread(start_all, group)
            await store.delete("/stock/tea")
            await browser.until(f"{SHOWN} === '/orders/1 9'")
            events = await browser.run("window.events")
            assert events[-1] == ["leave", "/stock/tea", 12]
            assert await browser.run("window.position.length > 5")
            await browser.run("window.stop.abort()")
            await browser.until("window.ended")


async def test_a_page_of_no_allowed_site_reads_nothing(
    browser: Browser, site: tuple[str, list[str]], tmp_path: Path
) -> None:
    origin, pages = site
    with LocalCluster(1, tmp_path / "nodes") as group:
        pages.append(PAGE.replace("URLS", str(group.urls)))
        await browser.open(origin)
        async with asyncio.timeout(20):
            while not browser.troubles:
                await asyncio.sleep(0.02)
        assert not await browser.run("window.events")
