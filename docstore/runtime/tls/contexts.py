"""SSL contexts: one for each use of TLS by a node.

Clients: TLS 1.2 or later. Links between nodes: TLS 1.3 only, both sides show certificates, and no
session is resumed by a ticket, since a resumed one shows no certificate. Host names are checked
where a node calls another over https; a link checks the node's id, which is in the certificate.
"""

import ssl
from contextvars import ContextVar
from dataclasses import dataclass

from docstore.errors import BadConfig
from docstore.runtime.tls.settings import Pair, TlsFiles

HTTP_1 = ["http/1.1"]


FAILURES: ContextVar[list[ssl.SSLError] | None] = ContextVar("FAILURES", default=None)
"""Takes the error of the handshake that begins in this context."""


class WithAlert(ssl.SSLObject):
    """A TLS connection that sends its alert to the peer that it refuses.

    OpenSSL leaves the alert in its buffer; asyncio and uvloop close at once and drop it, so the
    peer would see only a connection that ends. `do_handshake` therefore reports the first failure
    as a want of bytes: the event loop writes the buffer, and the next call raises the failure.
    """

    _failures: list[ssl.SSLError] | None = None

    def do_handshake(self) -> None:
        """Continue the handshake. Raises SSLError on the second failure."""
        if self._failures is None:
            found = FAILURES.get()  # Later calls run in other contexts.
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
    """All contexts, made from the files as they were at one reading."""

    clients: ssl.SSLContext | None = None
    """Context of the port of clients; None if that port has no TLS."""

    accepting: ssl.SSLContext | None = None
    dialling: ssl.SSLContext | None = None
    """Context of links that this node dials. It and `accepting` are both set or both None."""

    asking: ssl.SSLContext | None = None
    """Context for https to other nodes; None for the system's default."""


def contexts_of(files: TlsFiles) -> Contexts:
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
        # Another CA may have signed the certificates that nodes show to clients.
        if files.peers != files.clients:
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
        raise BadConfig(f"{key}: {pair.key} must not have a password") from None
    except ssl.SSLError as error:
        why = "is not the certificate's" if "MISMATCH" in str(error) else "has no key in PEM"
        raise BadConfig(f"{key}: {pair.key} {why}") from None
    except OSError as error:
        raise BadConfig(f"{key}: {pair.key}: {error.strerror}") from None


def _trust(files: TlsFiles, context: ssl.SSLContext) -> None:
    assert files.ca is not None
    try:
        context.load_verify_locations(files.ca)
    except ssl.SSLError:
        raise BadConfig(f"tls_ca_file: {files.ca} has no certificate in PEM") from None
    except OSError as error:
        raise BadConfig(f"tls_ca_file: {files.ca}: {error.strerror}") from None


class _LockedKeyError(ValueError):
    """OpenSSL needs a password to read a key."""


def _no_password() -> str:
    raise _LockedKeyError
