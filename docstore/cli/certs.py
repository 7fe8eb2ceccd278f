"""`docstore certs`: make a CA and certificates for nodes, and show the content of one."""

from pathlib import Path
from typing import Annotated, Any

import typer

from docstore.cli.terminal import AsJson, failed, show

PANEL = "Nodes"
certs = typer.Typer(no_args_is_help=True, help="Certificates for TLS: a CA, and one for each node.")
Directory = Annotated[Path, typer.Option("--dir", help="Directory of the CA and of new files.")]
HERE = Path("certs")
LOOPBACK = ["localhost", "127.0.0.1", "::1"]


@certs.command("make-ca")
def make_ca(
    directory: Directory = HERE,
    group: Annotated[str, typer.Option(help="Name of the group in certificates.")] = "main",
    days: Annotated[int, typer.Option(min=1, max=36_500, help="Days of validity.")] = 3650,
    as_json: AsJson = False,
) -> None:
    """Make a CA for a group: ca.pem for its nodes, and ca-key.pem, to keep away from them."""
    from docstore.errors import BadConfig
    from docstore.runtime.tls.authority import make_authority

    try:
        made = make_authority(directory, group, days)
    except (BadConfig, OSError) as error:
        raise failed(error) from None
    _tell(made, as_json=as_json)


@certs.command("make-node")
def make_node(
    nodes: Annotated[
        list[str], typer.Argument(help="Id of the node, or ids of all nodes on one machine.")
    ],
    directory: Directory = HERE,
    host: Annotated[
        list[str], typer.Option("--host", help="Host name or address of the node; may be repeated.")
    ] = LOOPBACK,
    group: Annotated[
        str, typer.Option(help="Name of the group, if not the one that make-ca was given.")
    ] = "",
    days: Annotated[int, typer.Option(min=1, max=36_500, help="Days of validity.")] = 365,
    as_json: AsJson = False,
) -> None:
    """Sign a certificate for a node with the CA: ID.pem and ID-key.pem. Run again to renew it."""
    from docstore.errors import BadConfig
    from docstore.runtime.tls.authority import make_certificate

    try:
        made = make_certificate(directory, nodes, host, days, group)
    except (BadConfig, OSError) as error:
        raise failed(error) from None
    _tell(made, as_json=as_json)


@certs.command("show")
def show_certificate(
    file: Annotated[Path, typer.Argument(help="A certificate, in PEM.")], as_json: AsJson = False
) -> None:
    """Show the nodes, hosts, expiry and serial number of a certificate."""
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
