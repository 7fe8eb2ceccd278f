"""A CA and node certificates for a group that has no CA of its own.

Keys are elliptic (P-256), which every client knows. Files are PEM: `ca.pem`, `n1.pem` and their
keys `ca-key.pem`, `n1-key.pem`, which only their owner may read.
"""

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from docstore.errors import BadConfig
from docstore.ownership.configuration import NODE_ID, is_node_id
from docstore.runtime.tls.certificates import NodeIdentity, certificate_in

__all__ = ["certificate_in", "make_authority", "make_certificate"]
CA = "ca"
CLOCKS_DIFFER = timedelta(minutes=5)
"""Time before signing at which a certificate becomes valid, because other clocks may be behind."""
_NAME = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9_.])?\Z")
"""Host name as clients compare it with a certificate, neither a URL nor with a port."""
_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")


def make_authority(directory: Path, group: str, days: float) -> Path:
    """Make a CA for a group; return its certificate's file. Raises BadConfig, OSError."""
    _checked(group)
    if (directory / f"{CA}-key.pem").exists():
        raise BadConfig(
            f"{directory} already has a CA, whose key would be lost: choose another directory"
        )
    directory.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _begun(_named(group), _named(group), key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(of_ca=True), critical=True)
    )
    return _write(directory, CA, key, builder.sign(key, hashes.SHA256()))


def make_certificate(
    directory: Path, nodes: Sequence[str], hosts: Sequence[str], days: float, group: str = ""
) -> Path:
    """Sign a certificate for a node with the CA of a directory; return its file.

    nodes: its id, or those of all nodes on one machine; the file is named after the first. hosts:
    names and addresses by which clients and other nodes call it. group: the group that the node
    belongs to; "": the CA's name. Raises BadConfig, OSError.
    """
    for node in nodes:
        if not is_node_id(node) or node == CA:
            raise BadConfig(f"node: {node[:80]!r} must be {NODE_ID}, and not {CA!r}")
    authority, signing = _authority_in(directory)
    name = authority.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    group = _checked(group or str(name))
    uris = [str(NodeIdentity(f"spiffe://cluster/{group}", node)) for node in nodes]
    names = [*map(x509.UniformResourceIdentifier, uris), *map(_host, hosts)]
    key = ec.generate_private_key(ec.SECP256R1())
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    issuer = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        _begun(_named(nodes[0]), authority.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(of_ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False
        )
    )
    return _write(directory, nodes[0], key, builder.sign(signing, hashes.SHA256()))


def _checked(group: str) -> str:
    if not _GROUP.match(group):
        raise BadConfig(
            f"group: must be 1 to 63 letters, digits, dots, hyphens, _; got {group[:80]!r}"
        )
    return group


def _authority_in(directory: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    cert, key = directory / f"{CA}.pem", directory / f"{CA}-key.pem"
    try:
        authority = x509.load_pem_x509_certificate(cert.read_bytes())
        signing = serialization.load_pem_private_key(key.read_bytes(), None)
    except OSError as error:
        raise BadConfig(f"{error.filename}: {error.strerror}; create it with make-ca") from None
    except (ValueError, TypeError):
        raise BadConfig(f"{cert}, {key}: must be a CA that make-ca created") from None
    if not isinstance(signing, ec.EllipticCurvePrivateKey):
        raise BadConfig(f"{key}: must be a key that make-ca created")
    return authority, signing


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: float
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(*, of_ca: bool) -> x509.KeyUsage:
    """Return the uses of a key: a CA signs certificates and revocations, a node its handshakes."""
    return x509.KeyUsage(
        digital_signature=not of_ca, key_cert_sign=of_ca, crl_sign=of_ca,
        content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text.strip("[]")))
    except ValueError:
        if not _NAME.match(text):
            raise BadConfig(
                f"host: {text[:80]!r} must be an ASCII name or an IP address, without a port"
            ) from None
        return x509.DNSName(text)


def _write(
    directory: Path, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate
) -> Path:
    """Write the key and then the certificate, replacing earlier ones atomically."""
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    cert = directory / f"{name}.pem"
    _replace(directory / f"{name}-key.pem", secret, 0o600)
    _replace(cert, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    return cert


def _replace(path: Path, content: bytes, mode: int) -> None:
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(file, "wb") as stream:
        stream.write(content)
    new.replace(path)
