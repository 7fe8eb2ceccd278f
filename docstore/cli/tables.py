"""Tables for people: as wide as the terminal, or a block for each row where it is too narrow."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Union

from docstore.cli.terminal import console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Cells = Sequence[Union[str, "Text"]]
NARROW = 16
"""Least width, in cells of the screen, at which a wrapped column can be read."""
BORDER = 3
"""Cells that a column needs besides its text."""


def tell_empty(text: str) -> None:
    """Say on a terminal that there is nothing to print; a pipe stays empty."""
    if sys.stdout.isatty():
        sys.stderr.write(f"docstore: {text}\n")


def tell_waiting(what: str) -> None:
    """Say on a terminal that the command prints nothing until there is news."""
    if sys.stdout.isatty():
        sys.stderr.write(f"docstore: waiting for {what}; Ctrl-C ends\n")


def print_table(
    columns: Sequence[str],
    rows: Sequence[Cells],
    *,
    title: str = "",
    empty: str = "",
    out: "Console | None" = None,
) -> None:
    """Print rows, the cells of which may be fewer than the columns.

    empty: message for a terminal if there is no row.
    """
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    if not rows and empty:
        tell_empty(empty)
        return
    out = out or console(is_wide=True)
    cells = [[Text(each) if isinstance(each, str) else each for each in row] for row in rows]
    widths = [
        max(len(name), *(row[place].cell_len for row in cells if place < len(row)), 0)
        for place, name in enumerate(columns)
    ]
    if sum(min(width, NARROW) + BORDER for width in widths) < out.width:
        table = Table(*columns, title=escape(title) or None)
        for row in cells:
            table.add_row(*row)
        out.print(table)
        return
    if title:
        out.print(Text(title, style="bold"))
    for row in cells:
        block = Table.grid(padding=(0, 1, 0, 0))
        block.add_column(style="dim", no_wrap=True)
        block.add_column(overflow="fold")
        for name, cell in zip(columns, row, strict=False):
            block.add_row(name, cell)
        out.print(block)
        out.print()
