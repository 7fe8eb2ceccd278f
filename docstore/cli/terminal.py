"""Common parts of the commands: options, a client for one command, output.

Each TAB of a completing shell runs this, so dependencies of single commands are imported late.
"""

import math
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import quote

import typer

from docstore.model.address import without_user

if TYPE_CHECKING:
    from ssl import SSLContext

    from rich.console import Console

    from docstore.client import Client, ClientError

T = TypeVar("T")

FAILED, MAY_HAVE_HAPPENED = 1, 3
"""Exit codes: 1 failed, 2 a wrong argument, 3 the outcome of an update is unknown."""


class CommandFailed(Exception):
    """A command failed; the message is one line."""


def _apart(urls: list[str]) -> list[str]:
    """Return single URLs: one option may hold several with commas, as in the Spark jobs."""
    apart = [url.strip() for each in urls for url in each.split(",") if url.strip()]
    if not apart:
        raise typer.BadParameter(f"must be the URL of a node, such as {DEFAULT_URLS[0]}; got ''")
    try:
        return [without_user(url) for url in apart]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def a_number(seconds: float | None) -> float | None:
    """Return the argument; reject `nan`, which passes every check of bounds."""
    if seconds is not None and math.isnan(seconds):
        raise typer.BadParameter("must be a number of seconds; got nan")
    return seconds


Urls = Annotated[
    list[str],
    typer.Option(
        "--url", envvar="DOCSTORE_URL", callback=_apart,
        help="URL of a node; repeat it, or use commas, for more nodes to try if one fails.",
    ),
]  # fmt: skip
Ttl = Annotated[
    float,
    typer.Option(
        min=0.5, max=3600, callback=a_number, help="Seconds of silence until the lease expires."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AlwaysJson = Annotated[bool, typer.Option("--json", help="Print JSON, as without the option.")]
"""So that a script may give `--json` to any command."""
JsonOfRun = Annotated[
    bool,
    typer.Option("--json", help="Print how it ended as JSON on standard error, as the last line."),
]
CACERT = "DOCSTORE_CACERT"
WIDTH = 1_000
READS_AT_ONCE = 50
DEFAULT_URLS = ["http://127.0.0.1:8001"]


def _believed(urls: list[str]) -> "SSLContext | None":
    """Return the trusted CAs for https; None for those of the system. Raises CommandFailed."""
    file = os.environ.get(CACERT)
    if not file or not any(url.startswith("https:") for url in urls):
        return None
    import ssl

    try:
        return ssl.create_default_context(cafile=file)
    except OSError:
        raise CommandFailed(f"{file} contains no certificate in PEM; give another file") from None


def console(*, stderr: bool = False, is_wide: bool = False) -> "Console":
    """Return the console for tables and progress.

    is_wide: without a terminal, do not cut off or wrap wide tables.
    """
    from rich.console import Console

    return Console(stderr=stderr, width=WIDTH if is_wide and not sys.stdout.isatty() else None)


def tell_reading(what: str) -> None:
    """Say on a terminal that the command waits for input."""
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(f"docstore: reading {what} from standard input; Ctrl-D ends it\n")


def client_of(urls: list[str], *, timeout_s: float = 30.0) -> "Client":
    """Return a client with the token of --token-file and the CAs of --cacert, or their variables.

    Raises CommandFailed.
    """
    from docstore.client import Client
    from docstore.model.tokens import token_of_environment

    token = token_of_environment()
    return Client(urls, timeout_s=timeout_s, token=token, ssl=_believed(urls))


def take_interrupts() -> None:
    """Make SIGINT raise KeyboardInterrupt instead of ending the process."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def talk(urls: list[str], work: "Callable[[Client], Awaitable[T]]") -> T:
    """Run `work` with a client; end the command with one line if it fails.

    SIGTERM and SIGHUP cancel it, as SIGINT does, so that it can release locks and commit offsets.
    """
    import asyncio

    from docstore.cli.late_certificates import import_aiohttp

    import_aiohttp()
    from docstore.client import ClientError, Unreachable

    told: list[int] = []

    async def run() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def stop(number: int) -> None:
            told.append(number)
            task.cancel()

        for number in (signal.SIGTERM, signal.SIGHUP):
            # Leave SIGHUP alone under nohup, which ignores it.
            if signal.getsignal(number) is signal.SIG_DFL:
                loop.add_signal_handler(number, stop, number)
        async with client_of(urls) as client:
            return await work(client)

    take_interrupts()
    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        raise typer.Exit(128 + told[0] if told else FAILED) from None
    except Unreachable as error:
        raise failed(CommandFailed(_unreachable(error.why))) from None
    except ClientError as error:
        raise failed(error, MAY_HAVE_HAPPENED if _is_in_doubt(error) else FAILED) from None
    except CommandFailed as error:
        raise failed(error) from None


def talk_on(urls: list[str], work: "Callable[[Client], Awaitable[T]]") -> None:
    """Run `work` with a client, as `talk` does, until it ends or Ctrl-C ends it."""
    with suppress(KeyboardInterrupt):
        talk(urls, work)


def _unreachable(why: str) -> str:
    """Return why no node could be asked, and what to do about it."""
    return (
        f"no node answers: {why.removeprefix('no node answers: ')}; start a node there, give the"
        " address of one with --url or DOCSTORE_URL, or try `docstore demo --quick`"
    )


def _is_in_doubt(error: "ClientError") -> bool:
    from docstore.client import RequestFailed, Unanswered

    if isinstance(error, RequestFailed):
        return error.outcome == "unknown"
    return isinstance(error, Unanswered)


async def read_all(client: "Client", paths: Iterable[str]) -> list[Any]:
    """Return the pages at some paths, in their order, without those that were deleted."""
    import asyncio

    from docstore.client import RequestFailed

    room = asyncio.Semaphore(READS_AT_ONCE)

    async def read(path: str) -> Any:
        async with room:
            try:
                return await client.json("GET", path)
            except RequestFailed as error:
                if error.status != 404:
                    raise
                return None

    pages = await asyncio.gather(*map(read, paths))
    return [page for page in pages if page is not None]


def failed(error: Exception, code: int = FAILED) -> typer.Exit:
    """Print the reason and what to do in one line; return the exception that ends the command."""
    from docstore.cli.usage_errors import advised

    why = advised(int(getattr(error, "status", 0)), str(error))
    if isinstance(error, OSError) and error.filename:
        why = f"{error.filename}: {error.strerror}"
    sys.stderr.write(f"docstore: {why}\n")
    return typer.Exit(code)


def show(value: Any) -> None:
    """Print a value as indented JSON, in colours on a terminal."""
    import orjson

    text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    if sys.stdout.isatty():
        console().print_json(text)
    else:
        sys.stdout.write(text + "\n")


def tell(page: Any, text: str, as_json: bool) -> None:
    """Print a page as JSON if the user wants that, else a text about it."""
    if as_json:
        show(page)
    else:
        typer.echo(text)


def path_of(factory: str, name: str) -> str:
    """Return the path of a document by its name, which may have any characters."""
    return f"{factory}/{quote(name, safe='')}"


async def documents_of(client: "Client", factory: str) -> list[Any]:
    """Return all documents of a factory."""
    return [each.value async for each in client.ls(factory)]
