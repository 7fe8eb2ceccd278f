"""Reads certificates in files: their nodes, hosts and dates, which OpenSSL does not report."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from docstore.errors import BadConfig
from docstore.ownership.configuration import is_node_id

SCHEME, NODE = "spiffe://", "/node/"


class NodeIdentity(NamedTuple):
    """A node of a group, as a certificate names it: spiffe://cluster/films/node/n1.

    group: such as spiffe://cluster/films. A CA may sign for several groups; a node is admitted to
    its own group only. A certificate of one computer may name all nodes that run there
    (`--processes`).
    """

    group: str
    node: str

    def __str__(self) -> str:
        return f"{self.group}{NODE}{self.node}"


def identities(uris: Iterable[str]) -> frozenset[NodeIdentity]:
    parts = [uri.rpartition(NODE) for uri in uris]
    return frozenset(
        NodeIdentity(group, node)
        for group, separator, node in parts
        if separator and group.startswith(SCHEME) and is_node_id(node)
    )


@dataclass(frozen=True, slots=True)
class Certificate:
    """The parts of a certificate that this node uses."""

    nodes: frozenset[NodeIdentity]
    hosts: tuple[str, ...]
    serial: int
    begins: datetime
    ends: datetime

    def refuse_untimely(self, setting: str, path: Path, now: datetime) -> None:
        """Raise BadConfig unless the certificate is valid now."""
        if now >= self.ends:
            raise BadConfig(f"{setting}: {path} expired on {day(self.ends)}")
        if now < self.begins:
            raise BadConfig(f"{setting}: {path} is not valid before {day(self.begins)}")


def day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def certificate_in(setting: str, path: Path) -> Certificate:
    """Describe the first certificate of a file. Raises BadConfig."""
    try:
        return described(certificates_in(setting, path)[0])
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise BadConfig(f"{setting}: {path}: {error}") from None


def certificates_in(setting: str, path: Path) -> list[x509.Certificate]:
    """Return the certificates of a file, at least one. Raises BadConfig."""
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        raise BadConfig(f"{setting}: {path}: {error.strerror}") from None
    except ValueError:
        raise BadConfig(f"{setting}: {path} has no certificate in PEM") from None


def described(found: x509.Certificate) -> Certificate:
    uris: list[str] = []
    hosts: list[str] = []
    with suppress(x509.ExtensionNotFound):  # No host and no user is named.
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        hosts = names.get_values_for_type(x509.DNSName)
        hosts += [str(each) for each in names.get_values_for_type(x509.IPAddress)]
    return Certificate(
        identities(uris), tuple(hosts), found.serial_number,
        found.not_valid_before_utc, found.not_valid_after_utc,
    )  # fmt: skip


def is_issued_by(leaf: bytes, authorities: Iterable[x509.Certificate]) -> bool:
    """Say whether one of these CAs has signed a certificate (DER) directly."""
    certificate = x509.load_der_x509_certificate(leaf)
    for each in authorities:
        try:
            certificate.verify_directly_issued_by(each)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return True
    return False


@dataclass(frozen=True, slots=True)
class Revocations:
    """Revoked certificates, by serial number, and nodes whose certificates are all revoked."""

    serials: frozenset[int] = frozenset()
    nodes: frozenset[NodeIdentity] = frozenset()


def _serial(text: str) -> int:
    digits = text.replace(":", "")
    if not set(digits) <= set("0123456789abcdefABCDEFxX"):
        raise ValueError(text)
    return int(digits, 16)


def revoked_in(path: Path) -> Revocations:
    """Read a revocation file: a serial number in hex or a node's URI on each line.

    `#` begins a comment. Raises BadConfig.
    """
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise BadConfig(f"tls_revoked_file: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadConfig(f"tls_revoked_file: {path} must be text") from None
    serials: set[int] = set()
    nodes: set[NodeIdentity] = set()
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        named = identities([text])
        try:
            serials |= {_serial(text)} if text and not named else set()
        except ValueError:
            why = "must be a serial number in hex or a node's URI"
            raise BadConfig(f"tls_revoked_file: {path}, line {number}: {why}") from None
        nodes |= named
    return Revocations(frozenset(serials), frozenset(nodes))
