"""The commands on certificates: a CA of one's own, those of nodes, and what stands in one."""

from pathlib import Path
from typing import Annotated, Any

import typer

from docstore.cli.terminal import AsJson, failed, show

PANEL = "Nodes"
certs = typer.Typer(no_args_is_help=True, help="Certificates for TLS: a CA, and one for each node.")
Directory = Annotated[Path, typer.Option("--dir", help="Where files are made, and the CA is.")]
HERE = Path("certs")
LOOPBACK = ["localhost", "127.0.0.1", "::1"]


@certs.command("make-ca")
def make_ca(
    directory: Directory = HERE,
    group: Annotated[str, typer.Option(help="What its group is called in certificates.")] = "main",
    days: Annotated[int, typer.Option(min=1, max=36_500, help="For how long it is valid.")] = 3650,
    as_json: AsJson = False,
) -> None:
    """Make a CA for the nodes of a group: ca.pem, and ca-key.pem, which no node needs."""
    from docstore.errors import BadConfig
    from docstore.runtime.tls.authority import make_authority

    try:
        made = make_authority(directory, group, days)
    except (BadConfig, OSError) as error:
        raise failed(error) from None
    _tell(made, as_json=as_json)


@certs.command("make-node")
def make_node(
    nodes: Annotated[list[str], typer.Argument(help="Its id; several: all on one machine.")],
    directory: Directory = HERE,
    host: Annotated[
        list[str],
        typer.Option("--host", help="A name or address by which it is called; repeat it."),
    ] = LOOPBACK,
    group: Annotated[str, typer.Option(help="Another group of the same CA.")] = "",
    days: Annotated[int, typer.Option(min=1, max=36_500, help="For how long it is valid.")] = 365,
    as_json: AsJson = False,
) -> None:
    """Have the CA sign a certificate for a node: ID.pem and ID-key.pem. Again: a newer one."""
    from docstore.errors import BadConfig
    from docstore.runtime.tls.authority import make_certificate

    try:
        made = make_certificate(directory, nodes, host, days, group)
    except (BadConfig, OSError) as error:
        raise failed(error) from None
    _tell(made, as_json=as_json)


@certs.command("show")
def show_certificate(file: Path, as_json: AsJson = False) -> None:
    """Show what a certificate says: whose it is, how long, and its serial number."""
    from docstore.errors import BadConfig

    try:
        _tell(file, as_json=as_json)
    except BadConfig as error:
        raise failed(error) from None


def _tell(file: Path, *, as_json: bool) -> None:
    from docstore.runtime.tls.authority import certificate_in

    found = certificate_in("file", file)
    page: dict[str, Any] = {
        "file": str(file),
        "nodes": sorted(map(str, found.nodes)),
        "hosts": list(found.hosts),
        "serial": f"{found.serial:x}",
        "expires": found.ends.isoformat(),
    }
    if as_json:
        show(page)
        return
    for name, value in page.items():
        typer.echo(f"{name:8} {' '.join(value) if isinstance(value, list) else value}")
