"""Certificates for tests: of a group of three, of another group, and expired ones."""

import ssl
from collections.abc import Sequence
from pathlib import Path

from docstore.runtime.tls.authority import make_authority, make_certificate
from docstore.runtime.tls.certificates import certificate_in
from docstore.runtime.tls.settings import TlsFiles, tls_files

HOSTS = ("localhost", "127.0.0.1")
EXPIRED_DAYS = -0.001
NODES = ("n1", "n2", "n3")


def group_of(directory: Path, nodes: Sequence[str] = NODES, group: str = "films") -> Path:
    """Make a CA and a certificate for each node; return their directory."""
    make_authority(directory, group, 365)
    for node in nodes:
        make_certificate(directory, [node], HOSTS, 30)
    return directory


def settings_of(directory: Path, node: str, **others: object) -> dict[str, object]:
    """Return a node's settings for its certificate and the CA."""
    return {
        "tls_cert_file": str(directory / f"{node}.pem"),
        "tls_key_file": str(directory / f"{node}-key.pem"),
        "tls_ca_file": str(directory / "ca.pem"),
        **others,
    }


def files_of(directory: Path, node: str, **others: object) -> TlsFiles:
    return tls_files(settings_of(directory, node, **others))


def believing(directory: Path) -> ssl.SSLContext:
    """Return the context of a client that trusts the CA."""
    return ssl.create_default_context(cafile=directory / "ca.pem")


def showing(directory: Path, node: str) -> ssl.SSLContext:
    """Return the context of a node that dials without comparing names."""
    context = believing(directory)
    context.check_hostname = False
    context.load_cert_chain(directory / f"{node}.pem", directory / f"{node}-key.pem")
    return context


def serial_of(directory: Path, node: str) -> str:
    return f"{certificate_in('file', directory / f'{node}.pem').serial:x}"
