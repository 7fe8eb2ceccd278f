"""The certificates and CAs that a node uses, reloaded whenever their files change.

A node checks the files twice a second, and at SIGHUP. It reads a changed file once two checks in a
row found the same file, because a file may be half written before. A reload with an unusable file
is logged and changes nothing.

New connections use the new files. Open links are checked again: a peer that was revoked, or whose
CA was removed, is disconnected.
"""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import structlog
from cryptography import x509

from docstore.errors import BadConfig
from docstore.runtime.audit import AUDIT
from docstore.runtime.secret_files import file_states, warn_of_open
from docstore.runtime.tls import certificates
from docstore.runtime.tls.contexts import Contexts, contexts_of
from docstore.runtime.tls.settings import TlsFiles

LOOK_S = 0.5
"""Seconds between two checks of the files."""
SOON = timedelta(days=14)
WARN_AGAIN = timedelta(days=1)

log = structlog.get_logger("docstore.tls")


class UntrustedPeer(Exception):
    """The certificate belongs to no node of this group."""


@dataclass(frozen=True, slots=True)
class LoadedFiles:
    """The contents of the files at the time of one reading."""

    contexts: Contexts
    ends: datetime
    """Time at which the first of this node's own certificates expires."""
    group: str = ""
    """Group in this node's own certificate; only its nodes are admitted."""
    authorities: frozenset[x509.Certificate] = frozenset()
    revoked: certificates.Revocations = field(default_factory=certificates.Revocations)


class Credentials:
    """The certificates that this node shows and accepts. changed: called to check links again."""

    def __init__(self, files: TlsFiles, me: str) -> None:
        """Raises BadConfig when a file is missing or unusable."""
        self._files = files
        self._me = me
        self._seen = file_states(self._files.paths)
        self._loaded = _load(files, me)
        self._outdated: frozenset[x509.Certificate] = frozenset()
        self._said = ""
        self.changed: Callable[[], None] = lambda: None
        self._warned = datetime.now(UTC)
        self._warn()

    @property
    def contexts(self) -> Contexts:
        """The SSL contexts for new connections."""
        return self._loaded.contexts

    def clients(self) -> ssl.SSLContext:
        assert self._loaded.contexts.clients is not None
        return self._loaded.contexts.clients

    def asking(self) -> ssl.SSLContext | None:
        """Return the context for https to other nodes; None: the system's default."""
        return self._loaded.contexts.asking

    @property
    def expires_s(self) -> float:
        """Return when the first of this node's certificates expires, in seconds since 1970."""
        return self._loaded.ends.timestamp()

    def nodes_of(self, certificate: object) -> frozenset[str]:
        """Return the ids of the nodes that a peer's certificate names. Raises UntrustedPeer.

        certificate: as `ssl.SSLSocket.getpeercert` returns it, verified by OpenSSL.
        """
        if not isinstance(certificate, dict) or not certificate:
            raise UntrustedPeer("the peer shows no certificate")
        names = certificate.get("subjectAltName", ())
        found = certificates.identities(value for kind, value in names if kind == "URI")
        serial = str(certificate.get("serialNumber", ""))
        revoked = self._loaded.revoked
        if int(serial, 16) in revoked.serials or found & revoked.nodes:
            raise UntrustedPeer(f"the certificate {serial} of the peer has been revoked")
        nodes = frozenset(each.node for each in found if each.group == self._loaded.group)
        if not nodes:
            said = ", ".join(sorted(map(str, found))) or "no node at all"
            raise UntrustedPeer(
                f"the certificate of the peer names {said}, and no node of {self._loaded.group}"
            )
        return nodes

    def still_knows(self, leaf: bytes, context: ssl.SSLContext) -> bool:
        """Say whether these files would accept a certificate (DER) that a context has verified.

        The certificate is checked only if earlier files accepted it and a CA was removed since. If
        it needs an intermediate CA, it is rejected then, and its peer must connect again.
        """
        contexts = self._loaded.contexts
        if context in (contexts.accepting, contexts.dialling) or not self._outdated:
            return True
        return certificates.is_issued_by(leaf, self._loaded.authorities)

    def reload(self) -> None:
        """Use the files as they are now, if they are usable."""
        self._seen = file_states(self._files.paths)
        try:
            loaded = _load(self._files, self._me)
            self._refuse_forgetting(loaded.revoked)
        except BadConfig as error:
            if str(error) != self._said:
                log.warning("certificates are not reloaded", why=str(error))
            self._said = str(error)
            return
        self._said = ""
        gone = self._loaded.authorities - loaded.authorities
        self._loaded, self._outdated = loaded, gone
        log.info("certificates are reloaded", expires=certificates.day(loaded.ends))
        AUDIT.note("certificates read", expires=certificates.day(loaded.ends))
        self._warn()
        self.changed()

    def _refuse_forgetting(self, revoked: certificates.Revocations) -> None:
        """Refuse an empty file in place of revocations: `cp` empties a file before it fills it."""
        path = self._files.revoked
        if (
            self._loaded.revoked != certificates.Revocations() == revoked
            and path
            and not path.stat().st_size
        ):
            raise BadConfig(
                f"tls_revoked_file: {path} is empty; to revoke nothing, write a comment (#)"
            )

    async def watch(self) -> None:
        before = self._seen
        while True:
            await asyncio.sleep(LOOK_S)
            state = file_states(self._files.paths)
            is_written, before = state == before, state
            if is_written and (self._said or state != self._seen):
                self.reload()
            elif datetime.now(UTC) - self._warned >= WARN_AGAIN:
                self._warn()

    def _warn(self) -> None:
        ends, self._warned = self._loaded.ends, datetime.now(UTC)
        if ends - self._warned < SOON:
            is_over = ends <= self._warned
            log.warning(
                "the certificate has expired" if is_over else "the certificate expires soon",
                on=certificates.day(ends),
            )
        pairs = {self._files.clients, self._files.peers}
        warn_of_open(pair.key for pair in pairs if pair is not None)


def _load(files: TlsFiles, me: str) -> LoadedFiles:
    own: dict[str, certificates.Certificate] = {}
    now = datetime.now(UTC)
    for pair in (files.clients, files.peers):
        if pair is not None and pair.setting not in own:
            own[pair.setting] = certificates.certificate_in(pair.setting, pair.cert)
            own[pair.setting].refuse_untimely(pair.setting, pair.cert, now)
    contexts = contexts_of(files)
    ends = min(each.ends for each in own.values())
    if files.peers is None or files.ca is None:
        return LoadedFiles(contexts, ends)
    setting = files.peers.setting
    return LoadedFiles(
        contexts,
        ends,
        _group_of(own[setting].nodes, me, f"{setting}: {files.peers.cert}"),
        frozenset(certificates.certificates_in("tls_ca_file", files.ca)),
        certificates.revoked_in(files.revoked) if files.revoked else certificates.Revocations(),
    )


def _group_of(nodes: frozenset[certificates.NodeIdentity], me: str, where: str) -> str:
    """Return the group in which a certificate names this node. Raises BadConfig."""
    groups = {each.group for each in nodes if each.node == me}
    if len(groups) == 1:
        return groups.pop()
    said = ", ".join(sorted(map(str, nodes))) or "no node"
    if groups:
        raise BadConfig(f"{where} names {me} in more than one group: {said}")
    raise BadConfig(f"{where} names {said}, not {me}: it needs a URI such as"
                    f" {certificates.NodeIdentity('spiffe://cluster/GROUP', me)}")  # fmt: skip
