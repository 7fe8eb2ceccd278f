"""A web page that shows which shelves run low, live, while two nodes are killed.

The page, `live_page.html`, comes from a site of its own and follows the nodes itself, with the
module that each of them serves. Without Chromium, open the printed address within a minute.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from aiohttp import web

from docstore.client import Client, LocalCluster

SHELVES, SALES, LOW, PATIENCE_S = 12, 300, 5, 60.0
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


class Site:
    """The page's own site, which also learns what the page shows."""

    def __init__(self) -> None:
        self.nodes: list[str] = []
        self.shown: dict[str, int] | None = None
        self.news = asyncio.Event()

    async def serve(self, request: web.BaseRequest) -> web.Response:
        """Answer the page, the addresses of the nodes, and what the page reports."""
        if request.path == "/nodes":
            return web.json_response(self.nodes)
        if request.path == "/shown":
            self.shown = await request.json()
            self.news.set()
            return web.Response(status=204)
        page = Path(__file__).with_suffix(".html").read_text("utf-8")
        return web.Response(text=page, content_type="text/html")

    async def until(self, wanted: dict[str, int]) -> None:
        """Return when the page shows this."""
        async with asyncio.timeout(PATIENCE_S):
            while self.shown != wanted:
                self.news.clear()
                await self.news.wait()


@asynccontextmanager
async def serving(site: Site) -> AsyncIterator[str]:
    """Serve a site on a free port; yield its origin."""
    runner = web.ServerRunner(web.Server(site.serve))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield "http://{}:{}".format(*runner.addresses[0])
    finally:
        await runner.cleanup()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[None]:
    """Open a page in Chromium without a window; without Chromium the reader opens it."""
    print(f"the page: {url}")
    if CHROMIUM is None:
        yield
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = ["--headless=new", "--remote-debugging-port=0", f"--user-data-dir={profile}"]
        quiet = asyncio.subprocess.DEVNULL
        command = (CHROMIUM, *flags, *["--no-sandbox"] * (os.geteuid() == 0), url)
        browser = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)
        try:
            yield
        finally:
            browser.terminate()
            await browser.wait()


async def trade(store: Client, cluster: LocalCluster) -> dict[str, int]:
    """Sell and refill shelves while nodes are killed; return the low ones."""
    rng, counts = Random(7), dict.fromkeys(range(SHELVES), 9)
    for sale in range(SALES):
        shelf = rng.randrange(SHELVES)
        counts[shelf] = counts[shelf] - 1 if counts[shelf] else 20
        await store.put(f"/stock/{shelf}", {"count": counts[shelf]})
        if sale == 100:
            print("the first node is killed")
            cluster.kill(cluster.nodes[0])
        elif sale == 200:
            print("the first node starts again; the second is killed")
            cluster.start(cluster.nodes[0])
            await asyncio.to_thread(cluster.wait_ready)
            cluster.kill(cluster.nodes[1])
    return {f"/stock/{shelf}": count for shelf, count in counts.items() if count < LOW}


async def main() -> None:
    """Trade while the page is open; compare what it shows with what is stored."""
    site = Site()
    async with serving(site) as origin:
        with LocalCluster(3, settings=["--allowed-origins", origin]) as cluster:
            site.nodes = cluster.urls
            async with Client(cluster.urls) as store, opened(origin):
                await store.declare("/stock")
                try:
                    await site.until({})  # The page is open.
                    await site.until(await trade(store, cluster))
                    print(f"the page shows {site.shown}, as stored")
                except TimeoutError:
                    if CHROMIUM:
                        raise
                    print("no browser has opened the page")


if __name__ == "__main__":
    asyncio.run(main())
