"""The TLS settings of a node: its files, and the ports that stay in plain text."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docstore.errors import BadConfig

TLS_KEYS = (
    "tls_cert_file", "tls_key_file", "tls_ca_file", "tls_revoked_file",
    "peer_tls_cert_file", "peer_tls_key_file",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate with its intermediate CAs, and its key: files in PEM."""

    setting: str
    """The setting that names the certificate's file."""
    cert: Path
    key: Path


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The TLS files of a node; without any it speaks plain text."""

    clients: Pair | None = None
    """Certificate shown to clients, which makes their port serve https."""

    peers: Pair | None = None
    """Certificate shown to other nodes, which makes links mutual TLS; set together with `ca`."""

    ca: Path | None = None
    """CAs in PEM that sign the certificates of nodes."""

    revoked: Path | None = None
    """Revoked certificates, by serial number, and revoked nodes, one a line."""

    @property
    def scheme(self) -> str:
        """The scheme of the URLs of the group's nodes."""
        return "https" if self.clients else "http"

    @property
    def paths(self) -> tuple[Path, ...]:
        pairs = [each for each in (self.clients, self.peers) if each is not None]
        of_pairs = [path for each in pairs for path in (each.cert, each.key)]
        others = [each for each in (self.ca, self.revoked) if each is not None]
        return tuple(dict.fromkeys([*of_pairs, *others]))


def tls_files(settings: Mapping[str, Any]) -> TlsFiles:
    """Return the files that the settings name. Raises BadConfig."""
    clients, own = _pair(settings, "tls"), _pair(settings, "peer_tls")
    ca, revoked = _path(settings, "tls_ca_file"), _path(settings, "tls_revoked_file")
    if ca is None:
        for key in ("tls_revoked_file", "peer_tls_cert_file"):
            if settings.get(key):
                raise BadConfig(f"{key}: applies to links between nodes; set tls_ca_file, too")
        return TlsFiles(clients)
    peers = own or clients
    if peers is None:
        raise BadConfig("tls_ca_file: needs a certificate for this node; set tls_cert_file")
    return TlsFiles(clients, peers, ca, revoked)


def plain_ports(settings: Mapping[str, Any], files: TlsFiles) -> dict[str, str]:
    """Return port -> the settings that would give it TLS or encryption, for those without."""
    pair = "tls_cert_file and tls_key_file"
    clients = {} if files.clients else {"listen": pair, "shared": pair, "kafka_listen": pair}
    peers = {} if files.peers else {"peer": "tls_ca_file"}
    gossip = {} if settings.get("gossip_key_file") else {"gossip": "gossip_key_file"}
    return clients | peers | gossip


def _pair(settings: Mapping[str, Any], kind: str) -> Pair | None:
    cert, key = _path(settings, f"{kind}_cert_file"), _path(settings, f"{kind}_key_file")
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        there, lacking = ("key", "cert") if cert is None else ("cert", "key")
        raise BadConfig(f"{kind}_{there}_file: needs {kind}_{lacking}_file; set both")
    return Pair(f"{kind}_cert_file", cert, key)


def _path(settings: Mapping[str, Any], key: str) -> Path | None:
    text = str(settings.get(key, ""))
    return Path(text) if text else None
