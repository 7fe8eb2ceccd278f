"""The metrics of a node: those that one in this process shows, and those of the docs."""

import asyncio
import json
import re
import socket
import tempfile
from collections.abc import Iterator
from functools import cache
from typing import Any

import aiohttp

from docstore.config import parse
from docstore.http.metrics import TEXTS
from docstore.node.node import Node
from tests.source import ROOT, sources

PAGE = ROOT / "docs/metrics.md"
TABLE = "| metric | value |\n|---|---|\n"
TIMEOUT_S = 20.0
COUNTER = re.compile(r"counters\[f?([\"'])(.+?)\1\] \+=")
DOCUMENTED = re.compile(r"\b((?:docstore|process)_[a-z_]+[a-z])`")
OCCASIONAL = re.compile(
    "docstore_(?:gossip|peer|protocol|repair|scan|sessions|streams|subscriptions)_.*_total"
)
"""Counters that a node shows once they count something, which may be chance."""
VALUE, PLACE = re.compile(r'="[^"]*"'), re.compile(r"\{[^}]*\}")
REQUESTS: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/core/factories", {"path": "/notes"}),
    ("PUT", "/notes/a", {"text": "x"}),
    ("GET", "/notes/a", None),
)
"""Requests to the node before it shows its metrics."""


def metrics() -> str:
    """Return metrics of the node with types and labels, those of the docs, and counters' names."""
    page = PAGE.read_text("utf-8")
    shown = _described(shown_by_a_node())
    parts = ["# shown by a node alone: labels, type"]
    parts += sorted({line for line in shown if not OCCASIONAL.match(line)})
    parts += ["", "# named in docs/metrics.md"]
    parts += sorted(set(DOCUMENTED.findall(page)))
    parts += ["", "# counted in the source, in any family; {} is a name that is put in"]
    parts += sorted(set(_counters()))
    return "\n".join(parts) + "\n"


def page_of_docs() -> str:
    """Return docs/metrics.md: its head as it is, and all metrics by the table of the product."""
    parts = [PAGE.read_text("utf-8").partition("\n## ")[0]]
    for section, texts in json.loads(TEXTS.read_text("utf-8")).items():
        rows = [f"| `{name}` | {text} |\n" for name, text in texts.items()]
        parts.append(f"\n## {section}\n\n{TABLE}{''.join(rows)}")
    return "".join(parts)


@cache
def shown_by_a_node() -> str:
    """Return the metrics of a node that was asked for a few things."""
    return asyncio.run(_page())


async def _page() -> str:
    """Start a node, ask it for a few things, and return its metrics."""
    with tempfile.TemporaryDirectory() as directory:
        ports = {name: f"127.0.0.1:{_free_port()}" for name in ("listen", "peer", "gossip")}
        node = Node(parse({"data": directory, "slots": 4, "log_level": "error", **ports}))
        await node.start()
        try:
            async with asyncio.timeout(TIMEOUT_S), aiohttp.ClientSession(node.config.url) as asking:
                while not node.gate.ready()[0]:
                    await asyncio.sleep(0.02)
                for method, path, body in REQUESTS:
                    async with asking.request(method, path, json=body) as response:
                        assert response.status < 300, await response.text()
                async with asking.get("/metrics") as response:
                    return await response.text()
        finally:
            node.drain()
            await node.drained()
            await node.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _described(page: str) -> Iterator[str]:
    """Yield names with their labels and types, without the labels' values."""
    kind = ""
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            kind = line.split()[3]
        elif not line.startswith("#"):
            yield f"{VALUE.sub('', line.rpartition(' ')[0])} {kind}"


def _counters() -> Iterator[str]:
    """Yield the names under which the source counts."""
    for source in sources():
        if source.is_under("docstore", "gossip"):
            yield from (PLACE.sub("{}", name) for _, name in COUNTER.findall(source.text))
