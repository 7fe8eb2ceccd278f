"""The host of a node, as the node's page shows it: clock, disk space, open secrets."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docstore.config import Config
from docstore.model.address import Address
from docstore.runtime.secret_files import is_open_to_others
from docstore.runtime.tls.settings import plain_ports


def host_page(config: Config) -> dict[str, Any]:
    """Return the clock, the disk space and the unprotected ports and files of this computer.

    timeMicros: since 1970. plainText: settings of plain-text ports that other computers can reach.
    openSecrets: settings of secret files that other users may read.
    """
    page: dict[str, Any] = {
        "timeMicros": time.time_ns() // 1000,
        "plainText": list(_plain_beyond_loopback(config)),
        "openSecrets": [name for name, file in _secrets(config) if is_open_to_others(file)],
    }
    try:
        disk = shutil.disk_usage(config.data)
    except OSError:
        return page  # Writes to the directory fail, too, and report it.
    return page | {"disk": {"totalBytes": disk.total, "freeBytes": disk.free}}


def _plain_beyond_loopback(config: Config) -> Iterator[str]:
    bound = {
        "listen": Address(config.listen_host, config.listen_port),
        "peer": Address(config.peer_host, config.peer_port),
        "gossip": config.gossip,
        "shared": config.shared,
    }
    plain = plain_ports({"gossip_key_file": config.gossip_key_file}, config.tls)
    for setting, address in bound.items():
        if setting in plain and address is not None and not address.is_loopback:
            yield setting


def _secrets(config: Config) -> Iterator[tuple[str, Path]]:
    files = {
        "token_file": config.token_file,
        "gossip_key_file": config.gossip_key_file,
        "callback_key_file": config.callbacks.key_file,
    }
    yield from ((setting, Path(file)) for setting, file in files.items() if file)
    for pair in dict.fromkeys((config.tls.clients, config.tls.peers)):
        if pair is not None:
            yield pair.setting.replace("cert", "key"), pair.key
