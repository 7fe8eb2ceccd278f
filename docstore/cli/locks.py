"""The commands on locks: run a command while holding one, list them, show one, break one."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from docstore.cli.completing import names
from docstore.cli.election import Command, Now, list_queues, show_queue
from docstore.cli.terminal import DEFAULT_URLS, AsJson, JsonOfRun, Ttl, Urls, a_number, talk, tell

if TYPE_CHECKING:
    from docstore.client import Client

RUN = "run"
NOT_FREE = 75
"""Exit code of `--try` and `--timeout` if the lock was not obtained: EX_TEMPFAIL of sysexits.h."""
FIRST_OPTIONS = ("-h", "--help")

Name = Annotated[str, typer.Argument(help="Name of the lock.", autocompletion=names("/core/locks"))]


class LockGroup(TyperGroup):
    """Commands on locks. `docstore lock NAME -- COMMAND` means `docstore lock run NAME ...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in FIRST_OPTIONS:
            args = [RUN, *args]
        elif "--" in args and args[0] != RUN:
            raise typer.BadParameter(
                f"{args[0]} is a command on locks; to run a command while holding a lock of this"
                f" name: docstore lock run {args[0]} -- COMMAND",
                ctx,
            )
        return super().parse_args(ctx, args)


lock = typer.Typer(
    cls=LockGroup,
    no_args_is_help=True,
    help="Locks: `docstore lock NAME -- COMMAND` runs a command while holding one.",
)


@lock.command(RUN)
def run_locked(
    name: Name,
    command: Command,
    ttl: Ttl = 10.0,
    is_tried: Annotated[
        bool, typer.Option("--try", help="Do not wait: exit with 75 if the lock is not free.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0, callback=a_number, help="Seconds to wait for the lock; then exit with 75."
        ),
    ] = None,
    url: Urls = DEFAULT_URLS,
    as_json: JsonOfRun = False,
) -> None:
    """Wait for a lock, run a command while holding it, then release it (`run` may be left out)."""
    if is_tried and timeout is not None:
        raise typer.BadParameter("--try excludes --timeout: it does not wait")

    async def work(client: "Client") -> int:
        from docstore.cli.running import run
        from docstore.client import Lost

        code = None
        try:
            async with client.lock(name, ttl_s=ttl, wait_s=0 if is_tried else timeout) as held:
                code = await run(held, command, as_json=as_json)
        except TimeoutError:
            await _tell_holder(client, name, as_json=as_json)
            code = NOT_FREE
        except Lost:
            if code is None:
                raise
        return code  # The command's own exit code counts, even if the lock was lost.

    raise typer.Exit(talk(url, work))


async def _tell_holder(client: "Client", name: str, *, as_json: bool) -> None:
    from docstore.cli.running import tell_json
    from docstore.cli.turns import read

    holder = (await read(client, "locks", name))["holder"]
    if as_json:
        tell_json({"holder": holder and holder["candidate"], "exit": NOT_FREE})
        return
    held = f"{holder['candidate']} holds it" if holder else "it is not free"
    sys.stderr.write(
        f"docstore: the lock {name} was not obtained: {held}; wait longer (--timeout), or see"
        f" `docstore lock show {name}`\n"
    )


@lock.command("list")
def list_locks(url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """List the locks with their holders."""
    list_queues(url, "locks", "holder", as_json=as_json)


@lock.command("show")
def show_lock(name: Name, url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Show the holder of a lock, and the candidates that wait for it."""
    show_queue(url, "locks", name, "holds", as_json=as_json)


@lock.command("break")
def break_lock(
    name: Name, now: Now = False, url: Urls = DEFAULT_URLS, as_json: AsJson = False
) -> None:
    """Take a lock from its holder: its lease expires, and the next candidate then holds the lock.

    The holder stops before, by its own clock. All other locks under the same lease end too.
    """
    from docstore.cli.turns import end

    before, after = talk(url, lambda client: end(client, "locks", name, now=now))
    tell(
        {"before": before, "holder": after},
        f"{before} no longer holds {name}; now {after or 'no candidate'} holds it",
        as_json,
    )
