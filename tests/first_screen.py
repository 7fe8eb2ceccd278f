"""Record the terminal at the top of README.md: `python -m tests.first_screen` draws the picture.

It runs the commands in a terminal of their own, on the ports of the demo, and keeps what they print
and when, without long waits. The picture is an SVG that plays once, and needs neither scripts nor
fonts from elsewhere.
"""

import json
import os
import pty
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from docstore.cli.demo_group import FILMS
from tests.source import ROOT

PICTURE = ROOT / "docs/img/first-screen.svg"
COLUMNS, ROWS = 96, 24
WIDTH, HEIGHT, LEFT, TOP = 8.4, 19, 18, 48
WAIT_S, READ_S, END_S = 0.6, 0.7, 4.0
"""Seconds to wait for a line at most, since longer waits are cut; to read the output of a command;
and to see the last picture before it stays."""
OWNED = "n3"
"""Node that dies; the film is one that it owns."""
SHORT = "jq -cM '[.title, .seen, .documentOwner]'"
STYLE = """
.screen{font:14px/19px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
white-space:pre;fill:#d8dee9}
.line{animation:show .01s linear both}.prompt{fill:#8fbf7f}.typed{fill:#fff;font-weight:600}
@keyframes show{from{opacity:0}to{opacity:1}}
@media(prefers-reduced-motion:reduce){
.line,.roll{animation-duration:.01s!important;animation-delay:0s!important}}
"""


@dataclass(frozen=True)
class Line:
    """A line of the terminal, and the second of its appearance."""

    at: float
    text: str
    is_typed: bool = False


def lines() -> Iterator[Line]:
    """Run the commands and yield the lines of the terminal."""
    now = 0.0
    for command in commands():
        yield Line(now, command, is_typed=True)
        now, since = now + 0.4, time.monotonic()
        for text in printed(command):
            now += min(time.monotonic() - since, WAIT_S)
            since = time.monotonic()
            yield Line(now, text)
        now += READ_S


def commands() -> Iterator[str]:
    yield "docstore demo --quick"
    film = owned_film()
    yield "docstore ls /films --filter \"genre eq 'Sci*' and year lt 1979\" --select title,year"
    yield f"docstore get {film} | {SHORT}"
    yield f"docstore demo kill {OWNED}"
    yield f"docstore patch {film} '{{\"seen\": true}}' | {SHORT}"
    yield "docstore demo --quick | head -n 1"
    yield "docstore demo stop"


def owned_film() -> str:
    for film in json.loads(FILMS.read_text("utf-8")):
        link = f"/films/{film['id']}"
        with urllib.request.urlopen(f"http://127.0.0.1:8001{link}/explain") as answer:
            if json.load(answer)["owner"] == OWNED:
                return link
    raise LookupError(f"no film is owned by {OWNED}")


def printed(command: str) -> Iterator[str]:
    """Yield the lines that a command prints on a terminal."""
    ours, theirs = pty.openpty()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    size = {"COLUMNS": str(COLUMNS), "LINES": str(ROWS), "TERM": "xterm-256color"}
    shell = subprocess.Popen(
        ["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
        env={**os.environ, **size, "PATH": path},
    )  # fmt: skip
    os.close(theirs)
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        rest = b""
        while True:
            try:
                rest += terminal.read(65_536) or b""
            except OSError:  # The other end is closed.
                break
            *whole, rest = rest.split(b"\r\n")
            yield from (line.decode() for line in whole)
    assert shell.wait() == 0, command


def drawn(line: Line) -> str:
    """Return a line as SVG."""
    if line.is_typed:
        return f'<tspan class="prompt">$ </tspan><tspan class="typed">{escape(line.text)}</tspan>'
    return escape(line.text)


def picture(shown: list[Line]) -> str:
    """Return the SVG: each line appears at its time, and the screen rolls when it is full."""
    total = shown[-1].at + END_S
    rolls = [(line.at, number - ROWS + 1) for number, line in enumerate(shown) if number >= ROWS]
    steps = "".join(
        f"{at / total:.4%}{{transform:translateY({-HEIGHT * count}px)}}" for at, count in rolls
    )
    rows = "\n".join(
        f'<text class="line" xml:space="preserve" x="{LEFT}" y="{TOP + HEIGHT * number}"'
        f' style="animation-delay:{line.at:.2f}s">{drawn(line)}</text>'
        for number, line in enumerate(shown)
    )
    rolled = HEIGHT * max(0, len(shown) - ROWS)
    width, height = round(COLUMNS * WIDTH) + 2 * LEFT, HEIGHT * ROWS + TOP
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"
width="{width}">
<title>A terminal: three nodes start, one is killed, and a document is written on</title>
<style>{STYLE}
@keyframes roll{{0%{{transform:none}}{steps}100%{{transform:translateY({-rolled}px)}}}}
.roll{{animation:roll {total:.2f}s step-end both}}</style>
<rect width="{width}" height="{height}" rx="8" fill="#1d2430"/>
<circle cx="20" cy="17" r="6" fill="#ec6a5e"/><circle cx="40" cy="17" r="6" fill="#f4bf4f"/>
<circle cx="60" cy="17" r="6" fill="#61c554"/>
<clipPath id="screen"><rect x="0" y="32" width="{width}" height="{height - 32}"/></clipPath>
<g clip-path="url(#screen)"><g class="screen roll">
{rows}
</g></g></svg>
"""


if __name__ == "__main__":
    PICTURE.write_text(picture(list(lines())), "utf-8")
