"""The ports of a node for clients: HTTP, and Kafka if the settings name a port for it."""

import asyncio
import ssl
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from docstore.config import Config
from docstore.errors import BadConfig
from docstore.http.origin_check import machine_names
from docstore.http.server import HttpServer
from docstore.http.staged_files import Staging
from docstore.node.backend import NodeBackend
from docstore.node.parts import Parts

if TYPE_CHECKING:
    from docstore.http.spans import Spans
    from docstore.kafka.listener import KafkaListener


class ClientListeners:
    """The servers of one backend."""

    def __init__(self, parts: Parts, backend: NodeBackend, spans: "Spans | None") -> None:
        """Raise BadConfig if the library of a port is not installed."""
        config = self._config = parts.config
        credentials = parts.credentials
        tls = credentials.clients if credentials and config.tls.clients else None
        self._http = HttpServer(
            backend,
            config.limits,
            Staging(config.data / "staging"),
            names=config.host_names | machine_names(),
            origins=config.allowed.origins,
            access=parts.access,
            tls=tls,
            slow_request_s=config.logging.slow_request_s or inf,
            spans=spans,
        )
        self._kafka = _kafka(config, parts, backend, tls) if config.kafka is not None else None

    async def start(self) -> None:
        """Serve HTTP, and bind the other ports. Raises OSError when a port is taken."""
        config = self._config
        await self._http.start(config.listen_host, config.listen_port)
        if config.shared is not None:
            await self._http.share(*config.shared)
        if self._kafka is not None and config.kafka is not None:
            await self._kafka.bind(*config.kafka.listen)

    async def serve_group(self) -> None:
        """Listen at the ports that clients may use once the group is known."""
        await self._http.serve_shared()
        if self._kafka is not None:
            await self._kafka.serve()

    def send_away(self) -> None:
        """Close each connection after its next answer, so that its client uses another node."""
        self._http.send_away()
        if self._kafka is not None:
            self._kafka.send_away()

    async def stop(self, grace_s: float) -> None:
        """Stop listening, let requests finish within `grace_s`, close the connections."""
        await asyncio.gather(
            self._http.stop(grace_s),
            *([self._kafka.stop(grace_s)] if self._kafka is not None else ()),
        )


def _kafka(
    config: Config,
    parts: Parts,
    backend: NodeBackend,
    tls: Callable[[], ssl.SSLContext] | None,
) -> "KafkaListener":
    """Return the listener for Kafka clients. Raises BadConfig without kio.

    Imports late, so that a node without the listener needs neither the library nor its memory.
    """
    try:
        from docstore.kafka.listener import KafkaListener  # noqa: PLC0415
    except ImportError as error:
        raise BadConfig(
            f"kafka_listen: {error.name} is not installed: pip install 'docstore[kafka]'"
        ) from None
    listener = KafkaListener(backend, config.limits, access=parts.access, tls=tls)
    backend.kafka_metrics = listener.metrics
    return listener
