"""The help of every command, as a screen of one width shows it without colours."""

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

import typer

from docstore.cli.app import app
from docstore.cli.serve_flags import parser
from gossip.__main__ import _parser as parser_of_gossip

SCREEN = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
HANDED_ON = {"serve", "spark"}
"""Commands whose help another program prints."""


def helps() -> str:
    """Return the help of all commands, each under a heading."""
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    paths = ["", *(path for path in _under(group) if path not in HANDED_ON)]
    with _screen():
        found = {f"docstore {path}".strip(): _help(group, path) for path in paths}
        found["docstore serve"] = parser().format_help()
        found["python -m gossip"] = parser_of_gossip().format_help()
    texts = {path: text.strip("\n") for path, text in found.items()}
    return "\n".join(f"=== {path} --help\n\n{texts[path]}\n" for path in sorted(texts))


@contextmanager
def _screen() -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(SCREEN)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _under(group: typer.core.TyperGroup) -> Iterator[str]:
    for name, command in group.commands.items():
        yield name
        if isinstance(command, typer.core.TyperGroup):
            yield from (f"{name} {path}" for path in _under(command))


def _help(group: typer.core.TyperGroup, path: str) -> str:
    with redirect_stdout(io.StringIO()) as printed:
        group.main([*path.split(), "--help"], prog_name="docstore", standalone_mode=False)
    lines = COLOURS.sub("", printed.getvalue()).splitlines()
    return "\n".join(line.rstrip() for line in lines)
