"""`docstore backup`: back up a running group to a directory, and verify the backups there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from docstore.cli import terminal
from docstore.cli.completing import words
from docstore.model.words import count

if TYPE_CHECKING:
    from docstore.maintenance.backup.manifest import BackupFile, Manifest

PANEL = "Nodes"
DAY_S = 86_400.0
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The directory of the backups.")]
SHOWN = ("id", "number", "previous", "group", "slots", "asOf", "cut", "docstore")

backup = typer.Typer(no_args_is_help=True, help="Backups of a running group.")


@backup.command("create")
def create(
    directory: Directory,
    as_of: Annotated[
        str,
        typer.Option(
            help="Moment to back up: barrier, latest, or a time with its zone.",
            autocompletion=words("barrier", "latest"),
        ),
    ] = "barrier",
    rows_per_second: Annotated[
        float, typer.Option(help="Read at most this many rows each second; 0: no limit.", min=0)
    ] = 0,
    hold_days: Annotated[
        float,
        typer.Option(
            help="Days to keep history for the next incremental backup; 0: none planned.", min=0
        ),
    ] = 8,
    url: terminal.Urls = terminal.DEFAULT_URLS,
    as_json: terminal.AsJson = False,
) -> None:
    """Back up a group: fully the first time, then the changes since the last backup in DIR."""
    from docstore.maintenance.backup.taking import BackupFailed, BackupRequest, take
    from docstore.reads.blocks import BadBackup

    wanted = BackupRequest(as_of=as_of, rows_per_second=rows_per_second, hold_s=hold_days * DAY_S)
    try:
        with progress() as tell:
            taken = terminal.talk(url, lambda client: take(client, directory, wanted, tell))
    except (BackupFailed, BadBackup, OSError) as error:
        raise terminal.failed(error) from None
    said(taken, as_json=as_json)


@backup.command("verify")
def verify(directory: Directory, as_json: terminal.AsJson = False) -> None:
    """Read all backups in DIR and check that they are complete, without contacting a node."""
    from docstore.maintenance.backup import verifying
    from docstore.reads.blocks import BadBackup

    try:
        with progress() as tell:
            found = verifying.verify(directory, lambda manifest, part: tell(part))
    except (BadBackup, OSError) as error:
        raise terminal.failed(error) from None
    if as_json:
        terminal.show([page_of(each) for each in found])
        return
    for each in found:
        said(each, as_json=False)


def said(manifest: "Manifest", *, as_json: bool) -> None:
    if as_json:
        terminal.show(page_of(manifest))
        return
    kind = "full" if manifest.number == 1 else "incremental"
    typer.echo(
        f"backup {manifest.number}: {kind}, as of {manifest.as_of}:"
        f" {count(manifest.rows, 'row')}, {manifest.length / 1e6:.1f} MB"
    )


def page_of(manifest: "Manifest") -> dict[str, Any]:
    """Return a backup as `--json` prints it."""
    known = asdict(manifest)
    known["asOf"] = known.pop("as_of")
    return {
        **{name: known[name] for name in SHOWN},
        "beganTimeMicros": manifest.began_us,
        "rows": manifest.rows,
        "bytes": manifest.length,
    }


@contextmanager
def progress() -> Iterator[Callable[["BackupFile"], None]]:
    """Show progress on a terminal; yield the function to call with each file that is done."""
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    terminal.take_interrupts()
    rows = files = 0
    columns = (TextColumn("{task.description}"), TimeElapsedColumn())
    out = terminal.console(stderr=True)
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as shown:
        task = shown.add_task("starting", total=None)

        def tell(part: "BackupFile") -> None:
            nonlocal rows, files
            rows, files = rows + part.rows, files + 1
            shown.update(task, description=f"{files} files, {rows} rows")

        yield tell
