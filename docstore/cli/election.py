"""The commands on elections and locks: run something while its turn lasts, and look at them."""

import contextlib
import os
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from docstore.cli.terminal import DEFAULT_URLS, AsJson, Ttl, Urls, console, show, talk

if TYPE_CHECKING:
    import asyncio
    import subprocess

    from docstore.client import Client
    from docstore.client.elections import Candidacy

PANEL = "Leases, locks, elections"
app = typer.Typer()
election = typer.Typer(no_args_is_help=True, help="Have one process lead; see who does.")
command = partial(app.command, rich_help_panel=PANEL)
Command = Annotated[list[str], typer.Argument(help="What to run, behind --.")]
Candidate = Annotated[str, typer.Option(help="Our name; none: one of its own.")]
PATIENCE_S = 10.0
"""Time for a command to stop by itself once its turn is over."""
NOT_STARTED = 127


@command()
def lock(name: str, command: Command, ttl: Ttl = 10.0, url: Urls = DEFAULT_URLS) -> None:
    """Run a command while it holds a lock: waits for it, and gives it back."""

    async def work(client: "Client") -> int:
        async with _stopped_by_sigterm(), client.lock(name, ttl_s=ttl) as held:
            return await _run(held, command)

    raise typer.Exit(talk(url, work))


@election.command("run")
def run(
    name: str,
    command: Command,
    ttl: Ttl = 10.0,
    candidate: Candidate = "",
    value: Annotated[str, typer.Option(help="JSON, or a text: what observers see.")] = "",
    url: Urls = DEFAULT_URLS,
) -> None:
    """Run a command for as long as it leads; it waits until it does.

    DOCSTORE_FENCE in its environment is the Fence of what it writes. SIGTERM when it leads no more.
    """

    async def work(client: "Client") -> int:
        elected = client.election(name, candidate=candidate, ttl_s=ttl)
        async with _stopped_by_sigterm(), elected:
            await elected.campaign(_json(value))
            return await _run(elected, command)

    raise typer.Exit(talk(url, work))


@election.command("show")
def show_election(name: str, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Show who leads, and who waits."""
    document = talk(url, lambda client: client.get(f"/core/elections/{name}")).value
    if as_json:
        show(document)
        return
    from rich.table import Table

    table = Table("", "candidate", "lease", "value", title=f"{name}, token {document['token']}")
    if document["holder"] is None:
        table.add_row("leads", f"nobody ({document['vacant'] or 'yet'})", "", "")
    for word, each in (("leads", document["holder"]), *(("waits", e) for e in document["queue"])):
        if each is not None:
            table.add_row(word, each["candidate"], each["lease"], _text(each["value"]))
    console(is_wide=True).print(table)


@election.command("observe")
def observe(
    name: str,
    since: Annotated[str | None, typer.Option(help="`resume` of a line that was seen.")] = None,
    url: Urls = DEFAULT_URLS,
) -> None:
    """Print how it stands and each change of it, one JSON object a line."""
    if since == "":
        raise typer.BadParameter("--since is empty: give `resume` of a line, or leave it out")

    async def follow(client: "Client") -> None:
        from dataclasses import asdict

        async for state in client.election(name).observe(since=since):
            sys.stdout.write(_text(asdict(state)) + "\n")
            sys.stdout.flush()

    with contextlib.suppress(KeyboardInterrupt):
        talk(url, follow)


def _json(text: str) -> Any:
    import orjson

    try:
        return orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return text


def _text(value: Any) -> str:
    import orjson

    return orjson.dumps(value).decode()


# Running something


@contextlib.asynccontextmanager
async def _stopped_by_sigterm() -> Any:
    """Give the place up before we end: whoever waits would wait for the lease to end."""
    import asyncio

    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    told: list[signal.Signals] = []

    def stop() -> None:
        told.append(signal.SIGTERM)
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, stop)
    try:
        yield
    except asyncio.CancelledError:
        if told:
            raise typer.Exit(128 + told[0]) from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


async def _run(turn: "Candidacy", words: list[str]) -> int:
    """Return the exit code of a command that is told to stop when the turn is over."""
    import asyncio
    import subprocess

    environment = os.environ | {"DOCSTORE_FENCE": turn.fence()}
    try:
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - some milliseconds; the user's own
            words,
            env=environment,
            preexec_fn=_dies_with_us(),  # noqa: PLW1509 - one system call
        )
    except OSError as error:
        sys.stderr.write(f"docstore: {words[0]}: {error.strerror}\n")
        return NOT_STARTED
    # Not a process of asyncio's: signalling one that has just died takes its exit code away from
    # the thread that waits for it there (CPython's issue 127049).
    ended = asyncio.create_task(asyncio.to_thread(process.wait))
    lost = asyncio.create_task(turn.lost())
    try:
        await asyncio.wait({ended, lost}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            sys.stderr.write(f"docstore: {turn.candidate} has lost its turn\n")
    finally:
        lost.cancel()
        await _stop(process, ended)
    code = ended.result()
    return code if code >= 0 else 128 - code


async def _stop(process: "subprocess.Popen[bytes]", ended: "asyncio.Task[int]") -> None:
    """Return once the command has ended; killed if it takes too long, or we are told once more."""
    import asyncio

    if ended.done():
        return
    process.terminate()
    try:
        await asyncio.wait({ended}, timeout=PATIENCE_S)
    finally:
        if not ended.done():
            process.kill()
    await ended


def _dies_with_us() -> Any:
    """Return what a child runs first: if we are killed, it must not go on as if it led."""
    if sys.platform != "linux":
        return None
    import ctypes

    set_parent_death_signal = 1
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(set_parent_death_signal, signal.SIGKILL)
