"""Which files a node is told for TLS, and what is done with them."""

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
    """A certificate with those of the CAs between it and the root, and its key: files in PEM."""

    setting: str
    """What the certificate's file is called among the settings."""
    cert: Path
    key: Path


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """What a node is told; nothing: it speaks plain text."""

    clients: Pair | None = None
    """Shown to clients, who are served over https then."""

    peers: Pair | None = None
    """Shown to other nodes, whose links are mutual TLS then: with `ca`, else None."""

    ca: Path | None = None
    """The CAs by which nodes are known, in PEM."""

    revoked: Path | None = None
    """Who is let in no more: serial numbers of certificates, and nodes, one a line."""

    @property
    def scheme(self) -> str:
        """How URLs of the nodes of this group begin."""
        return "https" if self.clients else "http"

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return all of the files."""
        pairs = [each for each in (self.clients, self.peers) if each is not None]
        of_pairs = [path for each in pairs for path in (each.cert, each.key)]
        others = [each for each in (self.ca, self.revoked) if each is not None]
        return tuple(dict.fromkeys([*of_pairs, *others]))


def tls_files(settings: Mapping[str, Any]) -> TlsFiles:
    """Return the files that the settings name. Raises BadConfig in one line."""
    clients, own = _pair(settings, "tls"), _pair(settings, "peer_tls")
    ca, revoked = _path(settings, "tls_ca_file"), _path(settings, "tls_revoked_file")
    if ca is None:
        for key in ("tls_revoked_file", "peer_tls_cert_file"):
            if settings.get(key):
                raise BadConfig(f"{key}: is of the links between nodes, which need tls_ca_file")
        return TlsFiles(clients)
    peers = own or clients
    if peers is None:
        raise BadConfig("tls_ca_file: a node shows its own certificate; say tls_cert_file")
    return TlsFiles(clients, peers, ca, revoked)


def plain_ports(settings: Mapping[str, Any], files: TlsFiles) -> dict[str, str]:
    """Return the ports that speak plain text, and by which settings each would not."""
    pair = "tls_cert_file and tls_key_file"
    clients = {} if files.clients else {"listen": pair, "shared": pair}
    peers = {} if files.peers else {"peer": "tls_ca_file"}
    gossip = {} if settings.get("gossip_key_file") else {"gossip": "gossip_key_file"}
    return clients | peers | gossip


def _pair(settings: Mapping[str, Any], kind: str) -> Pair | None:
    cert, key = _path(settings, f"{kind}_cert_file"), _path(settings, f"{kind}_key_file")
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        there, lacking = ("key", "cert") if cert is None else ("cert", "key")
        raise BadConfig(f"{kind}_{there}_file: goes with {kind}_{lacking}_file, which is not said")
    return Pair(f"{kind}_cert_file", cert, key)


def _path(settings: Mapping[str, Any], key: str) -> Path | None:
    text = str(settings.get(key, ""))
    return Path(text) if text else None
