"""The man page and the completion scripts, which `setup.py` puts into the wheel.

`python -m docstore.cli.manual DIR` writes them under DIR, as they are to lie under a prefix.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer
from typer._completion_shared import get_completion_script

from docstore import __version__
from docstore.cli.app import app
from docstore.cli.serve_flags import HELP, SWITCHES

COMPLETIONS = {
    "bash": "bash-completion/completions/docstore",
    "zsh": "zsh/site-functions/_docstore",
    "fish": "fish/vendor_completions.d/docstore.fish",
}
"""Shell -> path of its script under share/."""

EXITS = {
    "0": "done; of a node: stopped",
    "1": "failed",
    "2": "a wrong argument or configuration",
    "3": "the outcome of an update is unknown",
    "74": "a node's disk failed",
    "75": "a node has too little disk space to start",
}


def written(text: str) -> str:
    """Return text for roff: no hyphenation of options, no line that is taken for a request."""
    text = re.sub(r"\s+", " ", text).strip().replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def man_page() -> str:
    """Return the page of section 1: all commands, and the settings of a node."""
    parts = [
        f'.TH DOCSTORE 1 "" "docstore {__version__}" "User Commands"',
        ".SH NAME",
        "docstore \\- a replicated store of versioned JSON documents over HTTP",
        ".SH SYNOPSIS",
        ".B docstore\n.I COMMAND\n.RI [ OPTION ]...",
        ".SH COMMANDS",
        *_of_commands("docstore", typer.main.get_command(app)),
        ".SH SETTINGS OF A NODE",
        "Each flag of\n.B docstore serve\nis also a key of its settings file and a variable:",
        "DOCSTORE_ and the key in capitals.",
        *_entries((_flag(key), text) for key, text in HELP.items()),
        ".SH EXIT STATUS",
        *_entries(EXITS.items()),
    ]
    return "\n".join(parts) + "\n"


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}" + ("" if key in SWITCHES else f" {key.upper()}")


def _of_commands(path: str, command: Any) -> Iterator[str]:
    """Yield a subsection for each command below one, and for itself."""
    context = typer.Context(command, info_name=path)
    if command.name != "serve":
        records = [each.get_help_record(context) for each in command.params]
        yield f".SS {written(' '.join([path, *command.collect_usage_pieces(context)]))}"
        yield _paragraphs(f"{command.help or ''}\n\n{command.epilog or ''}")
        yield from _entries(record for record in records if record)
    for name, each in sorted(getattr(command, "commands", {}).items()):
        if not each.hidden:
            yield from _of_commands(f"{path} {name}", each)


def _paragraphs(text: str) -> str:
    """Return text for roff; a paragraph that begins with a backspace keeps its lines."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.startswith("\b"):
            lines = [written(line) for line in paragraph.strip("\b\n").splitlines()]
            parts.append("\n".join([".nf", *lines, ".fi"]))
        else:
            parts.append(written(paragraph))
    return "\n.PP\n".join(parts)


def _entries(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, text in pairs:
        yield f".TP\n.B {written(name)}\n{written(text)}"


def write_under(directory: Path) -> None:
    texts = {"share/man/man1/docstore.1": man_page()}
    for shell, path in COMPLETIONS.items():
        texts[f"share/{path}"] = get_completion_script(
            prog_name="docstore", complete_var="_DOCSTORE_COMPLETE", shell=shell
        )
    for path, text in texts.items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.rstrip("\n") + "\n", "utf-8")


if __name__ == "__main__":
    write_under(Path(sys.argv[1]))
