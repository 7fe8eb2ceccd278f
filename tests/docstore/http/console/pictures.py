"""Make the pictures of the console in docs/img: real pages of three nodes, with real data.

python -m tests.docstore.http.console.pictures FILMS FLIGHTS

FILMS and FLIGHTS are JSON arrays of objects; docs/testing.md names some.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp

from docstore.client import LocalCluster
from tests.docstore.http.console.browser import Browser, browsing, running
from tests.docstore.http.console.world import furnish, put

IMAGES = Path(__file__).parents[4] / "docs" / "img"
LINES = 500
WRITES_S = 24.0
PAGES = (
    ("console-list", "list/films?columns=title%2Cyear%2Ccast&filter=year+ge+2020", "The"),
    ("console-stream", "stream/flights", "origin"),
)
"""Name of the picture, view, and words that it shows."""


async def load(session: aiohttp.ClientSession, films: Any, flights: Any) -> None:
    """Store the films, and append the flights to a topic."""
    await furnish(session)
    for path, asked in (
        ("/core/factories", {"path": "/films"}),
        ("/core/streams", {"name": "flights", "partitions": 6}),
    ):
        async with session.post(path, json=asked, headers={"Prefer": "wait=10"}) as answer:
            assert answer.status == 201, await answer.text()
    lines = [
        json.dumps({"op": "PUT", "link": f"/films/{number}", "body": each}).encode()
        for number, each in enumerate(films, 1)
    ]
    for part in _parts(lines):
        headers = {"Content-Type": "application/x-ndjson"}
        async with session.post("/core/bulk", data=b"\n".join(part), headers=headers) as answer:
            assert b'"status":4' not in await answer.read()
    for part in _parts([{"key": each["origin"], "value": each} for each in flights]):
        async with session.post("/core/streams/flights/records", json={"records": part}) as answer:
            assert answer.status == 200, await answer.text()


def _parts(whole: list[Any]) -> Iterator[list[Any]]:
    for begin in range(0, len(whole), LINES):
        yield whole[begin : begin + LINES]


async def change(session: aiohttp.ClientSession, films: Any) -> None:
    """Give one film versions by several writes."""
    for rating in (6.1, 6.4):
        await put(session, "/films/1", json.dumps({**films[0], "rating": rating}))


async def write(session: aiohttp.ClientSession, seconds: float) -> None:
    """Write and read for some seconds, for the charts."""
    until = asyncio.get_running_loop().time() + seconds
    number = 0
    while asyncio.get_running_loop().time() < until:
        number += 1
        await put(session, f"/notes/{number % 100}", json.dumps({"n": number}))
        async with session.get(f"/notes/{number % 100}"):
            pass


async def take(browser: Browser, name: str, words: str) -> None:
    """Keep the picture of the page once it shows some words."""
    await browser.until(f"document.body.textContent.includes({words!r})")
    picture = await browser.picture()
    await asyncio.to_thread((IMAGES / f"{name}.png").write_bytes, picture)
    print(f"docs/img/{name}.png", len(picture) >> 10, "KiB")


async def main(films: Any, flights: Any) -> None:
    """Start three nodes and a browser, and take all pictures."""
    headers = {"Content-Type": "application/json"}
    with (
        LocalCluster(3) as group,
        tempfile.TemporaryDirectory() as profile,
        running(Path(profile)) as address,
    ):
        url = group.urls[0]
        async with (
            aiohttp.ClientSession(url, headers=headers) as session,
            browsing(address) as browser,
        ):
            await load(session, films, flights)
            await change(session, films)
            await browser.resize(1_280)
            await browser.shown(url, "document/films/1")
            await take(browser, "console", "takes over next")
            for name, view, words in PAGES:
                await browser.shown(url, view)
                await take(browser, name, words)
            await browser.shown(url, "holders/elections/scheduler")
            await browser.click("Transfer to host-8")
            await take(browser, "console-question", "stops by its own clock")
            await browser.resize(1_280, "dark")
            await browser.shown(url, "charts")
            await write(session, WRITES_S)
            await take(browser, "console-charts", "Latency")
            await browser.resize(1_280)
            group.kill(group.nodes[2])
            await browser.shown(url, "group")
            await browser.until("document.querySelector('.state.ill')")
            await take(browser, "console-group", "dead")
            await browser.until("!sessionStorage.getItem('docstore-members').includes('n3')")
            group.kill(group.nodes[0])
            await browser.until("document.querySelector('.banner')")
            await take(browser, "console-dead", "Go on at another member")


def arguments() -> argparse.Namespace:
    """Return the two files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("films", "flights"):
        parser.add_argument(name, type=Path, help="a file with a JSON array of objects")
    return parser.parse_args()


if __name__ == "__main__":
    ASKED = arguments()
    asyncio.run(
        main(*(json.loads(each.read_text("utf-8")) for each in (ASKED.films, ASKED.flights)))
    )
