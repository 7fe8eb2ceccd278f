"""What OpenSSL is told: one context for each thing that a node does with TLS.

Clients: from 1.2 on. Links between nodes: 1.3 alone, both sides show certificates, and none is
resumed by a ticket, since whoever resumes shows nothing. Names of hosts are compared where a node
is asked over https; on a link the node's own name is, which stands in its certificate.
"""

import ssl
from contextvars import ContextVar
from dataclasses import dataclass

from docstore.errors import BadConfig
from docstore.runtime.tls.settings import Pair, TlsFiles

HTTP_1 = ["http/1.1"]


FAILURES: ContextVar[list[ssl.SSLError] | None] = ContextVar("FAILURES", default=None)
"""Takes why the handshake fails that is begun in this context."""


class WithAlert(ssl.SSLObject):
    """A TLS connection that sends its alert to the peer that it refuses.

    OpenSSL leaves the alert in its buffer; asyncio and uvloop close at once and drop it, so the
    peer would see only a connection that ends. `do_handshake` therefore reports the first failure
    as a want of bytes: the event loop writes the buffer, and the next call raises the failure.
    """

    _failures: list[ssl.SSLError] | None = None

    def do_handshake(self) -> None:
        """Go on with the handshake. Raises SSLError: the second time that it cannot go on."""
        if self._failures is None:
            found = FAILURES.get()  # The calls to come are made elsewhere.
            self._failures = [] if found is None else found
        if self._failures:
            raise self._failures[0]
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self._failures.append(error)
            raise ssl.SSLWantReadError from error


@dataclass(frozen=True, slots=True)
class Contexts:
    """All of them, as the files were when they were read."""

    clients: ssl.SSLContext | None = None
    """For the port of clients; None: it has no TLS."""

    accepting: ssl.SSLContext | None = None
    dialling: ssl.SSLContext | None = None
    """For links, both or none."""

    asking: ssl.SSLContext | None = None
    """For questions over https to other nodes; None: as the system has it."""


def contexts_of(files: TlsFiles) -> Contexts:
    """Return what the files make. Raises BadConfig."""
    clients = accepting = dialling = asking = None
    if files.clients is not None:
        clients = _serving(files.clients, ssl.TLSVersion.TLSv1_2)
        clients.set_alpn_protocols(HTTP_1)
    if files.peers is not None:
        accepting = _serving(files.peers, ssl.TLSVersion.TLSv1_3)
        accepting.num_tickets = 0
        dialling = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        dialling.check_hostname = False
        dialling.minimum_version = ssl.TLSVersion.TLSv1_3
        _show(files.peers, dialling)
        for each in (accepting, dialling):
            each.verify_mode = ssl.CERT_REQUIRED
            _trust(files, each)
        asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        asking.set_alpn_protocols(HTTP_1)
        _trust(files, asking)
        if files.peers != files.clients:  # Clients are shown another CA's, which they know.
            asking.set_default_verify_paths()
    return Contexts(clients, accepting, dialling, asking)


def _serving(pair: Pair, least: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = least
    context.sslobject_class = WithAlert
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    _show(pair, context)
    return context


def _show(pair: Pair, context: ssl.SSLContext) -> None:
    key = pair.setting.replace("cert", "key")
    try:
        context.load_cert_chain(pair.cert, pair.key, password=_no_password)
    except _LockedKeyError:
        raise BadConfig(f"{key}: {pair.key} is locked by a password") from None
    except ssl.SSLError as error:
        why = "is not the certificate's" if "MISMATCH" in str(error) else "holds no key in PEM"
        raise BadConfig(f"{key}: {pair.key} {why}") from None
    except OSError as error:
        raise BadConfig(f"{key}: {pair.key}: {error.strerror}") from None


def _trust(files: TlsFiles, context: ssl.SSLContext) -> None:
    assert files.ca is not None
    try:
        context.load_verify_locations(files.ca)
    except ssl.SSLError:
        raise BadConfig(f"tls_ca_file: {files.ca} holds no certificate in PEM") from None
    except OSError as error:
        raise BadConfig(f"tls_ca_file: {files.ca}: {error.strerror}") from None


class _LockedKeyError(ValueError):
    """OpenSSL wants a password."""


def _no_password() -> str:
    raise _LockedKeyError
