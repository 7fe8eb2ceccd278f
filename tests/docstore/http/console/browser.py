"""A real browser without a window: Chromium, controlled over its DevTools protocol."""

import asyncio
import base64
import itertools
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from tests.docstore.watching import until

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new", "--remote-debugging-port=0", "--no-first-run", "--disable-gpu",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions",
    "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio",
)  # fmt: skip
SOON_S = 20.0
TABS_MAX = 100
KEYS = {
    "Tab": (9, ""), "Enter": (13, "\r"), "Escape": (27, ""), "Space": (32, " "),
    "ArrowDown": (40, ""), "KeyA": (65, "a"),
}  # fmt: skip
"""Name of a key -> its number, and the text that it types."""
NAME_OF_FOCUSED = """((it) => it.getAttribute('aria-label') ?? it.labels?.[0]?.textContent
    ?? it.textContent.trim())(document.activeElement)"""
EXECUTABLE = next(filter(None, map(shutil.which, NAMES)), None)
"""None if no Chromium is installed."""


class Browser:
    """One page of a browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.troubles: list[str] = []
        """Errors of the page's scripts, and loads and scripts that the browser blocked."""

    async def listen(self) -> None:
        """Receive messages of the browser until it ends."""
        async for message in self._socket:
            reply = json.loads(message.data)
            if "id" in reply:
                self._waiting.pop(reply["id"]).set_result(reply)
            elif reply["method"] == "Runtime.exceptionThrown":
                details = reply["params"]["exceptionDetails"]
                self.troubles.append(json.dumps(details)[:1000])
            elif reply["method"] == "Log.entryAdded":
                self.troubles.append(reply["params"]["entry"]["text"])

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol; return its result."""
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(SOON_S):
            reply = await answer
        assert "error" not in reply, reply
        found: dict[str, Any] = reply["result"]
        return found

    async def open(self, url: str) -> None:
        """Open a page."""
        await self.call("Page.navigate", url=url)

    async def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        reply = await self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in reply, reply
        return reply["result"].get("value")

    async def until(self, condition: str) -> None:
        """Return once an expression is true."""
        try:
            async with asyncio.timeout(SOON_S):
                while True:
                    with suppress(AssertionError):  # The page may still load.
                        if await self.run(f"Boolean({condition})"):
                            return
                    await asyncio.sleep(0.02)
        except TimeoutError:
            shown = await self.run("document.body.innerText")
            raise AssertionError(f"never {condition}: {self.troubles} {shown}") from None

    async def text(self) -> str:
        """Return the text of the page."""
        shown: str = await self.run("document.querySelector('main').innerText")
        return shown

    async def press(self, key: str, *, control: bool = False) -> None:
        """Press and release a key of KEYS."""
        code, text = KEYS[key]
        about = {
            "key": text or key, "code": key, "windowsVirtualKeyCode": code,
            "modifiers": 2 if control else 0,
        }  # fmt: skip
        typed = {"text": text} if text and not control else {}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **about, **typed)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    async def tab_to(self, name: str) -> None:
        """Press Tab until the element of a name, or of a label, has the focus."""
        seen = []
        for _ in range(TABS_MAX):
            await self.press("Tab")
            seen.append(await self.run(NAME_OF_FOCUSED))
            if seen[-1] == name:
                return
        raise AssertionError(f"Tab does not lead to {name}, but to {seen}")

    async def type_into(self, field: str, text: str) -> None:
        """Move to a field by Tab, and replace its text by keys alone."""
        await self.tab_to(field)
        await self.press("KeyA", control=True)
        await self.call("Input.insertText", text=text)

    async def answer(self, title: str) -> None:
        """Click a button of the dialog that is shown; wait until it closes."""
        await self.until(f"document.querySelector('dialog') && ({named_in('dialog', title)})")
        await self.run(f"{named_in('dialog', title)}.click()")
        await self.until("!document.querySelector('dialog')")

    async def shown(self, url: str, view: str) -> str:
        """Open a view; return its text once it is shown."""
        await self.open(f"{url}/core/ui#/{view}")
        await self.until("document.querySelector('main h1')")
        return await self.text()

    async def click(self, title: str) -> None:
        """Click the element with a title, once it exists."""
        named = named_in("body", title)
        await self.until(named)
        await self.run(f"{named}.click()")

    async def write(self, field: str, text: str) -> None:
        """Replace the text of a field, as keys do."""
        await self.until(f"document.querySelector({field!r})")
        await self.run(f"document.querySelector({field!r}).focus()")
        await self.run(f"document.querySelector({field!r}).select()")
        await self.call("Input.insertText", text=text)

    async def resize(self, width: int, scheme: str = "light") -> None:
        """Set the width of the page in pixels, and its colour scheme, `light` or `dark`."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=800, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def picture(self) -> bytes:
        """Return a screenshot as PNG."""
        shot = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(shot["data"])


def named_in(place: str, title: str) -> str:
    """Return a script that finds the element with a title in a place."""
    return (
        f"[...document.querySelectorAll(':is({place}) :is(button, a, summary)')].find((it) =>"
        f" [it.textContent.trim(), it.getAttribute('aria-label')].includes({title!r}))"
    )


@contextmanager
def running(directory: Path) -> Iterator[str]:
    """Start a browser with an empty profile in a directory; return its address, and end it."""
    assert EXECUTABLE is not None
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    process = subprocess.Popen(
        [EXECUTABLE, *FLAGS, *sandbox, f"--user-data-dir={directory}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    port = directory / "DevToolsActivePort"
    try:
        until(lambda: port.exists() and "\n" in port.read_text(), SOON_S)
        yield f"http://127.0.0.1:{port.read_text().split()[0]}"
    finally:
        process.terminate()
        process.wait()


@asynccontextmanager
async def browsing(address: str) -> AsyncIterator[Browser]:
    """Open a page that shares nothing with other pages of a running browser; close it."""
    async with aiohttp.ClientSession(address) as session:
        async with session.get("/json/version") as answer:
            url = URL((await answer.json(content_type=None))["webSocketDebuggerUrl"])
        async with _connected(session, url) as whole:
            context = await whole.call("Target.createBrowserContext")
            page = await whole.call("Target.createTarget", url="about:blank", **context)
            async with _connected(
                session, url.with_path(f"/devtools/page/{page['targetId']}")
            ) as browser:
                for domain in ("Page", "Runtime", "Log"):
                    await browser.call(f"{domain}.enable")
                yield browser
            await whole.call("Target.disposeBrowserContext", **context)


@asynccontextmanager
async def _connected(session: aiohttp.ClientSession, url: URL) -> AsyncIterator[Browser]:
    async with session.ws_connect(url, max_msg_size=0) as socket:
        browser = Browser(socket)
        listening = asyncio.create_task(browser.listen())
        yield browser
    await listening
