"""`docstore demo`: the tour; with --quick, a group that stays for the user to try commands on."""

import time
from pathlib import Path
from typing import Annotated

import typer

from docstore.cli.terminal import (
    AsJson,
    CommandFailed,
    console,
    failed,
    show,
    take_interrupts,
    tell,
)

demo = typer.Typer(
    help="Start three nodes: to try things on (--quick), or for a tour in which nodes die."
)


@demo.callback(invoke_without_command=True)
def run(
    context: typer.Context,
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave three nodes with sample documents running.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(min=1024, help="With --quick: port of the first node (8001)."),
    ] = None,
    is_opened: Annotated[
        bool, typer.Option("--open", help="With --quick: open the console in a browser.")
    ] = False,
    keep: Annotated[bool, typer.Option(help="Leave the nodes running until Ctrl-C.")] = False,
    data: Annotated[Path | None, typer.Option(help="Load this file instead.")] = None,
    as_json: AsJson = False,
) -> None:
    """Start three nodes, load real documents, kill an owner, and show that nothing is lost."""
    if context.invoked_subcommand is not None:
        if quick or keep or data or is_opened or port is not None:
            raise typer.BadParameter(f"`demo {context.invoked_subcommand}` takes no option before")
        return
    if quick and (keep or data):
        raise typer.BadParameter("--quick goes with neither --keep nor --data")
    if not quick and (port is not None or is_opened):
        raise typer.BadParameter("--port and --open need --quick")
    if quick:
        _start(port, is_opened=is_opened, as_json=as_json)
        return
    from docstore.cli import demo as tour

    claims = tour.run(console(stderr=as_json), keep=keep, data=data)
    if as_json:
        show(claims.page())
    raise typer.Exit(0 if claims.hold else 1)


def _start(port: int | None, *, is_opened: bool, as_json: bool) -> None:
    import os
    import signal
    import sys
    import webbrowser

    from docstore.cli import demo_group

    take_interrupts()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    began, is_elsewhere = time.perf_counter(), "DOCSTORE_URL" in os.environ
    try:
        group, started = demo_group.start(port)
    except CommandFailed as error:
        raise failed(error) from None
    page = group.page()
    if as_json:
        show(page)
    else:
        is_elsewhere = is_elsewhere or group.port != demo_group.PORT
        options = f" --url {page['urls'][0]}" if is_elsewhere else ""
        seconds = time.perf_counter() - began
        typer.echo(demo_group.said(group, started, seconds, options))
    if is_opened:
        webbrowser.open(page["console"])


@demo.command()
def kill(
    node: Annotated[str, typer.Argument(help="n1, n2 or n3.")], as_json: AsJson = False
) -> None:
    """Kill a node of `demo --quick` with SIGKILL; a second `demo --quick` starts it again."""
    from docstore.cli import demo_group

    try:
        group = demo_group.kill(node)
    except CommandFailed as error:
        raise failed(error) from None
    tell(
        group.page(),
        f"{node} is killed; its slots have other owners within a second or two",
        as_json,
    )


@demo.command()
def stop(as_json: AsJson = False) -> None:
    """Stop the nodes of `demo --quick`, and delete their data."""
    from docstore.cli import demo_group

    try:
        names = demo_group.stop()
    except CommandFailed as error:
        raise failed(error) from None
    if as_json:
        show({"stopped": names})
    elif names:
        typer.echo(f"stopped {', '.join(names)}, and deleted their data")
    else:
        typer.echo("no node of the demo runs; start some with docstore demo --quick")
