"""Settings of each of several nodes on one machine, derived from their common settings."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docstore.config import parse
from docstore.errors import BadConfig
from docstore.model.address import PORT_MAX, Address, parse_address, split_url
from docstore.runtime.tls.settings import tls_files

PROCESSES_MAX = 64
PORTS = 3
"""Ports of each node: clients, other nodes, gossip."""
ADDRESSES = (
    "listen", "peer", "gossip", "advertise", "peer_advertise", "gossip_advertise",
    "kafka_listen", "kafka_advertise",
)  # fmt: skip
LISTEN = Address("127.0.0.1", 8001)


def settings_of_each(settings: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Return the settings of each of `count` nodes, derived from their common settings.

    Node X becomes X-0, X-1, ...: each has a directory in `data`, the next three ports, and the zone
    X. Each founder in `bootstrap` becomes `count` founders; without founders, the nodes found a
    group of themselves. Raises BadConfig.
    """
    if not 1 <= count <= PROCESSES_MAX:
        raise BadConfig(f"processes: must be a whole number from 1 to {PROCESSES_MAX}; got {count}")
    if not settings.get("node_id"):
        raise BadConfig("node_id: required with --processes, because the ids of its nodes begin so")
    if settings.get("replaces"):
        raise BadConfig("replaces: not allowed with --processes: one node replaces a member")
    if not any(settings.get(key) for key in ("bootstrap", "join", "standby")):
        scheme = tls_files(settings).scheme
        at = f"{scheme}://{settings.get('advertise') or _listen(settings)}"
        settings = {**settings, "bootstrap": f"{settings['node_id']}={at}"}
    each = [_settings_of(settings, number, count) for number in range(count)]
    for told in each:
        parse(told)
    return each


def _settings_of(settings: Mapping[str, Any], number: int, count: int) -> dict[str, Any]:
    told = {"zone": settings["node_id"], **settings, "listen": _listen(settings)}
    told["node_id"] = f"{settings['node_id']}-{number}"
    if told.get("data"):
        told["data"] = str(Path(str(told["data"])) / str(number))
    for key in ADDRESSES:
        if key in told:
            told[key] = _moved(str(told[key]), number, key)
    if told.get("bootstrap"):
        told["bootstrap"] = _founders(told["bootstrap"], count)
    return told


def _listen(settings: Mapping[str, Any]) -> str:
    return str(settings.get("listen") or LISTEN)


def _moved(address: str, number: int, key: str) -> str:
    try:
        host, port = parse_address(address)
    except ValueError as error:
        raise BadConfig(f"{key}: {error}") from None
    if port + PORTS * number > PORT_MAX:
        raise BadConfig(
            f"{key}: the port of {address} is too high for {PORTS} more ports for node {number}"
        )
    return str(Address(host, port + PORTS * number))


def _founders(listed: str | Sequence[str], count: int) -> str:
    """Return the founders, each replaced by `count` founders."""
    founders: list[str] = []
    for entry in listed.split(",") if isinstance(listed, str) else listed:
        name, _, url = entry.strip().partition("=")
        try:
            scheme, (host, port) = split_url(url)
        except ValueError as error:
            raise BadConfig(f"bootstrap: {error}; use ID=http://HOST:PORT") from None
        addresses = [Address(host, port + PORTS * number) for number in range(count)]
        founders += [f"{name}-{nth}={each.url(scheme)}" for nth, each in enumerate(addresses)]
    return ",".join(founders)


def flags_of(told: Mapping[str, Any]) -> list[str]:
    flags = []
    for key, value in told.items():
        flag = "--" + key.replace("_", "-")
        if value is True:
            flags.append(flag)
        elif value is not False:
            text = value if isinstance(value, str | int | float) else ",".join(map(str, value))
            flags.append(f"{flag}={text}")
    return flags
