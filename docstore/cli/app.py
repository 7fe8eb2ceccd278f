"""The command line: one function for each command, a table on a terminal, JSON on request.

Each TAB of a completing shell runs this file, so each command imports its own dependencies.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from docstore import __version__
from docstore.cli import (
    access,
    backup,
    certs,
    demos,
    doctor,
    documents,
    election,
    gossip_keys,
    leases,
    locks,
    records,
    subscriptions,
    topics,
    trace,
)
from docstore.cli import consumer_groups as groups
from docstore.cli import membership as group
from docstore.cli.completing import factories, links
from docstore.cli.terminal import (
    DEFAULT_URLS,
    AlwaysJson,
    AsJson,
    CommandFailed,
    Urls,
    a_number,
    console,
    failed,
    show,
    talk,
    tell,
)
from docstore.cli.tree import CommandTree
from docstore.model.words import count

app = typer.Typer(
    cls=CommandTree,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
NODES = "Nodes"
app.add_typer(documents.app)
app.add_typer(group.app)
app.add_typer(trace.app)
app.add_typer(backup.backup, name="backup", rich_help_panel=backup.PANEL)
app.add_typer(doctor.app)
app.add_typer(certs.certs, name="certs", rich_help_panel=certs.PANEL)
app.add_typer(access.access, name="access", rich_help_panel=NODES)
app.add_typer(gossip_keys.gossip_key, name="gossip-key", rich_help_panel=NODES)
app.add_typer(topics.topic, name="topic", rich_help_panel=topics.PANEL)
app.add_typer(topics.partition, name="partition", rich_help_panel=topics.PANEL)
app.add_typer(records.app)
app.add_typer(groups.group, name="group", rich_help_panel=groups.PANEL)
app.add_typer(groups.role, name="role", rich_help_panel=groups.PANEL)
app.add_typer(leases.lease, name="lease", rich_help_panel=leases.PANEL)
app.add_typer(locks.lock, name="lock", rich_help_panel=election.PANEL)
app.add_typer(subscriptions.subscription, name="subscription")
app.add_typer(election.election, name="election", rich_help_panel=election.PANEL)
app.add_typer(demos.demo, name="demo")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"docstore {__version__}")
        raise typer.Exit


@app.callback()
def docstore(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the token to send; else DOCSTORE_TOKEN or DOCSTORE_TOKEN_FILE."
        ),
    ] = None,
) -> None:
    """A replicated store of versioned JSON documents over HTTP.

    New here? `docstore demo --quick` starts three nodes with sample documents to try it on.
    """
    if token_file is not None:  # Processes that a command starts inherit the token's file.
        os.environ.pop("DOCSTORE_TOKEN", None)
        os.environ["DOCSTORE_TOKEN_FILE"] = str(token_file)


@app.command(rich_help_panel=NODES)
def serve() -> None:
    """Run one node (see `docstore serve --help`)."""


@app.command(rich_help_panel=NODES)
def status(url: Urls = DEFAULT_URLS, as_json: AsJson = False) -> None:
    """Show the members, how many slots each owns, and replication lag."""
    from docstore.cli.status import read_status, show_status

    found = talk(url, read_status)
    if as_json:
        show(found)
    else:
        show_status(found, console(is_wide=True))


@app.command()
def load(
    file: Annotated[Path, typer.Argument(help="A JSON array, NDJSON or CSV.")],
    into: Annotated[
        str, typer.Option(help="The factory, such as /movies.", autocompletion=factories)
    ],
    ids: Annotated[
        str,
        typer.Option("--id", help="FIELD[,FIELD] whose values make the id; row numbers the rows."),
    ] = "row",
    upsert: Annotated[
        bool, typer.Option(help="Let a later row replace an earlier one with the same id.")
    ] = False,
    url: Urls = DEFAULT_URLS,
    as_json: AsJson = False,
) -> None:
    """Load a JSON array, NDJSON or CSV file."""
    from dataclasses import asdict

    from docstore.cli import load as loading

    plan = loading.Plan(file, into, ids, upsert=upsert)
    loaded = talk(url, lambda client: loading.load(client, plan, console(stderr=as_json)))
    if as_json:
        show(asdict(loaded))


@app.command(rich_help_panel=NODES)
def resync(
    link: Annotated[
        str,
        typer.Argument(
            help="A factory or a document; without it, everything.", autocompletion=links
        ),
    ] = "",
    url: Urls = DEFAULT_URLS,
    slots_per_second: Annotated[
        float, typer.Option(help="Compare at most this many slots each second; 0: no limit.")
    ] = 0,
    timeout: Annotated[
        float,
        typer.Option(min=0, callback=a_number, help="Seconds to wait for the end; 0: no limit."),
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Bring all replicas up to date with their owners, compare them, and show the progress."""
    from docstore.cli import resync as resyncing

    request: dict[str, Any] = {"slotsPerSecond": slots_per_second}
    if link:
        request["documentSelfLink"] = link
    terminal = console(stderr=True)
    page = talk(url, lambda client: resyncing.follow(client, request, timeout, terminal))
    tell(page, resyncing.said(page), as_json)
    if page["state"] != "FINISHED":
        raise typer.Exit(1)


@app.command("force-config", rich_help_panel=NODES)
def force_config(
    data: Annotated[Path, typer.Option(help="Data directory of the stopped surviving node.")],
    yes: Annotated[
        bool, typer.Option(help="Confirm that acknowledged writes may be lost.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Rebuild the group from this node after a majority is permanently lost."""
    from docstore.cli.force import force_now
    from docstore.errors import DocstoreError

    if not yes:
        raise typer.BadParameter(
            "writes that only the lost nodes stored will be lost; add --yes to confirm"
        )
    try:
        configuration, lost = force_now(data)
    except DocstoreError as error:
        raise failed(error) from None
    member = configuration.members[0].id
    if as_json:
        show({"id": configuration.id, "member": member, "slots": configuration.slots,
              "slotsLost": lost})  # fmt: skip
        return
    typer.echo(
        f"configuration {configuration.id}: {member} is the only member, marked as forced;"
        f" {lost} of {configuration.slots} slots were not on this disk and start empty"
    )


@app.command(rich_help_panel=NODES)
def restore(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory of backups.")],
    data: Annotated[Path, typer.Option(help="Empty data directory for the new node.")],
    as_json: AsJson = False,
) -> None:
    """Create a data directory for a new group from the backups in DIR."""
    from docstore.cli.restore import restore_now
    from docstore.errors import DocstoreError
    from docstore.reads.blocks import BadBackup

    try:
        page = restore_now(directory, data)
    except (BadBackup, DocstoreError, OSError) as error:
        raise failed(error) from None
    said = (
        f"restored {count(page['rows'], 'row')} of group {page['group']} to {data}"
        f" in {page['seconds']:.1f} s; start a node on it as founder, with --slots {page['slots']}"
    )
    tell(page, said, as_json)


@app.command(rich_help_panel=NODES)
def drain(url: Urls = DEFAULT_URLS, as_json: AlwaysJson = False) -> None:
    """Have a node finish its open requests and stop."""
    show(talk(url[:1], lambda client: client.json("DELETE", "/core/management")))


@app.command(rich_help_panel=NODES)
def token(as_json: AsJson = False) -> None:
    """Create a token, and its line for the access file, without contacting a node."""
    import hashlib
    import secrets

    made = secrets.token_urlsafe(32)
    digest = hashlib.sha256(made.encode()).hexdigest()
    if as_json:
        show({"token": made, "sha256": digest})
        return
    typer.echo(made)
    typer.echo(f'tokens = ["{digest}"]', err=True)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def spark(context: typer.Context) -> None:
    """Bulk jobs on Apache Spark: import, export, restore, audit, matview, ... (--help)."""
    import importlib.util

    if importlib.util.find_spec("pyspark") is None:
        raise failed(CommandFailed("jobs need PySpark: pip install 'docstore[spark]'"))
    asked = [sys.executable, "-m", "docstore.pipeline", *(context.args or ["--help"])]
    os.execv(sys.executable, asked)  # noqa: S606 - The job itself receives the signals.
