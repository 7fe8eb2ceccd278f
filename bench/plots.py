"""Draw recorded results as pairs of bars: python -m bench.plots writes docs/img/bench-*.svg."""

import json
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from bench.gossip.plots import COLOURS, FONT

RESULTS = Path(__file__).parent / "results"
FOLDER = Path(__file__).resolve().parents[1] / "docs" / "img"
WIDTH, LEFT, BAR, GAP, TOP = 720, 250, 15, 12, 64
LONGEST = WIDTH - LEFT - 100


@dataclass(frozen=True)
class Pair:
    """One work, and how much of it each of two sides did in a second."""

    work: str
    first: float
    second: float


@dataclass(frozen=True)
class Chart:
    """Pairs of bars; each pair has a scale of its own, its longer bar is the whole width."""

    name: str
    title: str
    sides: tuple[str, str]
    pairs: tuple[Pair, ...]


def charts() -> Iterator[Chart]:
    """Yield what is drawn, from the recorded results."""
    yield _beside("documents", "Documents, beside etcd (lean.json)", "etcd", _medians("lean"), {
        "put_1.rate": "PUT, 1 client", "put_16.rate": "PUT, 16 clients",
        "put_64.rate": "PUT, 64 clients", "get_1.rate": "linearizable GET, 1 client",
        "get_64.rate": "linearizable GET, 64 clients", "bulk.rate": "bulk load, documents",
    })  # fmt: skip
    yield _beside("locks", "Lock and unlock, beside etcd (owners.json)", "etcd", _locks, {
        "pairs_1": "1 client", "pairs_16": "16 clients",
    })  # fmt: skip
    streams = _medians("streams")
    yield _beside("streams", "Records, beside JetStream (streams.json)", "jetstream", streams, {
        "batches.rate": "batches of 500, 12 clients", "singles.rate": "single records, 64 clients",
        "one_client.rate": "single records, 1 client", "fetch.rate": "full fetch",
    })  # fmt: skip
    tls, works = _read("tls"), {"put": "PUT, 64 clients", "get": "GET, 64 clients"}
    pairs = (Pair(works[key], tls[f"{key}_plain_per_s"], tls[f"{key}_tls_per_s"]) for key in works)
    yield Chart("tls", "TLS on all ports (tls.json)", ("plain text", "TLS"), tuple(pairs))


def _read(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def _medians(name: str) -> Callable[[str, str], float]:
    medians = _read(name)["medians"]
    return lambda key, side: float(medians[key][side])


def _locks(key: str, side: str) -> float:
    return statistics.median(found["rate"] for found in _read("owners")["rounds"][f"{side} {key}"])


def _beside(
    name: str,
    title: str,
    rival: str,
    figure: Callable[[str, str], float],
    works: Mapping[str, str],
) -> Chart:
    pairs = (Pair(work, figure(key, rival), figure(key, "docstore")) for key, work in works.items())
    return Chart(name, title, (rival, "docstore"), tuple(pairs))


def drawn(chart: Chart) -> str:
    """Return a chart as SVG."""
    height = TOP + len(chart.pairs) * (2 * BAR + GAP) + 4
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {FONT}>',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="12" y="22" font-size="14">{escape(chart.title)}</text>',
    ]
    for number, side in enumerate(chart.sides):
        across = LEFT + number * 110
        parts += [
            f'<rect x="{across}" y="38" width="12" height="12" fill="{COLOURS[1 - number]}"/>',
            f'<text x="{across + 18}" y="48">{escape(side)}</text>',
        ]
    for index, pair in enumerate(chart.pairs):
        top = TOP + index * (2 * BAR + GAP)
        parts.append(f'<text x="12" y="{top + BAR + 4}">{escape(pair.work)}</text>')
        for number, value in enumerate((pair.first, pair.second)):
            width, down = LONGEST * value / max(pair.first, pair.second), top + number * BAR
            place = f'x="{LEFT}" y="{down}" width="{width:.1f}" height="{BAR - 2}"'
            parts += [
                f'<rect {place} fill="{COLOURS[1 - number]}"/>',
                f'<text x="{LEFT + width + 6:.1f}" y="{down + 11}">{value:,.0f}/s</text>',
            ]
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    for each in charts():
        (FOLDER / f"bench-{each.name}.svg").write_text(drawn(each), "utf-8")
