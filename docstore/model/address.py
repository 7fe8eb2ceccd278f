"""Addresses of nodes, HOST:PORT, in settings, requests and pages.

Each of a node's three ports has two addresses: the bound one, and the advertised one, at which
others reach it. The two differ in a container, and if the bound one is a wildcard, which others
cannot reach.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from docstore.errors import BadConfig

PORT_MAX = 65_535
LOOPBACK = ("127.", "localhost", "::1")
_HOST = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\ud800-\udfff/@?#\[\]]{1,253}\Z")
"""Pattern of a host; RFC 1035 bounds its length."""
_SCHEME = re.compile(r"\w+://")
_URL = re.compile(r"(https?)://(.*)\Z", re.DOTALL)


class Address(NamedTuple):
    """A host (name or IP literal without brackets) and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def url(self, scheme: str) -> str:
        return f"{scheme}://{self}"

    @property
    def is_wildcard(self) -> bool:
        """Whether the host is 0.0.0.0 or :: in any spelling."""
        return not self.host.strip("0.:")

    @property
    def is_loopback(self) -> bool:
        """Whether only this computer can reach it."""
        return self.host.startswith(LOOPBACK)


@dataclass(frozen=True, slots=True)
class Ports:
    """Bound and advertised addresses of a node."""

    are_local: bool
    """Whether no bound address can be reached from another computer."""
    listen: Address
    peer: Address
    gossip: Address
    advertise: Address
    peer_advertise: Address
    gossip_advertise: Address
    shared: Address | None
    """Address for clients that several processes of this computer share, if any."""
    kafka: "KafkaAddresses | None"
    """Addresses of the listener for Kafka clients, if any."""


class KafkaAddresses(NamedTuple):
    """The bound and the advertised address of a node's Kafka listener."""

    listen: Address
    advertise: Address


def without_user(url: str) -> str:
    """Return the URL of a node.

    Raises ValueError if it has a user or password, which the error hides.

    Errors, logs and plans show URLs, and a node takes no credentials from its URL.
    """
    before, at, behind = url.rpartition("@")
    if at:
        scheme = _SCHEME.match(before)
        shown = f"{scheme[0] if scheme else ''}***@{behind}"[:80]
        raise ValueError(
            f"{shown!r}: the URL of a node must have no user or password; put a token into"
            " DOCSTORE_TOKEN, or into the file that DOCSTORE_TOKEN_FILE names"
        )
    return url


def parse_address(text: str) -> Address:
    without_user(text)
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    is_number = port.isascii() and port.isdecimal()
    if not _HOST.match(host) or not is_number or not 0 < int(port) <= PORT_MAX:
        raise ValueError(f"{text[:80]!r} is not HOST:PORT")
    return Address(host, int(port))


def parse_url(text: str) -> Address:
    """Parse http(s)://HOST:PORT to its address. Raises ValueError in one line."""
    return split_url(text)[1]


def split_url(text: str) -> tuple[str, Address]:
    """Parse http(s)://HOST:PORT to its scheme and address. Raises ValueError in one line."""
    found = _URL.match(without_user(text))
    if found is None:
        raise ValueError(f"{text[:80]!r} is not http://HOST:PORT or https://HOST:PORT")
    return found[1], parse_address(found[2].rstrip("/"))


def ports_of(
    settings: Mapping[str, Any], listed: Address | None, plain: Mapping[str, str]
) -> Ports:
    """Parse the addresses in the settings of a node. Raises BadConfig in one line.

    listed: address of this node in the list of founders; None if it is not there.
    plain: port without encryption -> settings that would encrypt it. Such a port must be bound to
    loopback.
    """
    listen = _setting(settings, "listen", Address("127.0.0.1", 8001))
    peer = _setting(settings, "peer", Address(listen.host, listen.port + 1))
    gossip = _setting(settings, "gossip", Address(listen.host, listen.port + 2))
    for key, each in (("peer", peer), ("gossip", gossip)):
        if each.port > PORT_MAX:
            raise BadConfig(
                f"{key}: listen {listen} leaves no port for {key}: give it as HOST:PORT"
            )
    shared = _setting(settings, "shared", listen) if settings.get("shared") else None
    kafka = _setting(settings, "kafka_listen", listen) if settings.get("kafka_listen") else None
    bound = [each for each in (listen, peer, gossip, shared, kafka) if each is not None]
    local = all(each.is_loopback for each in bound)
    ports = {"listen": listen, "shared": shared, "kafka_listen": kafka}
    _refuse_plain_text({**ports, "peer": peer, "gossip": gossip}, plain)
    otherwise = listed if listed is not None and listen.is_wildcard else listen
    if otherwise.is_wildcard and "advertise" not in settings:
        raise BadConfig(
            f"advertise: listen is {listen}, every address of this machine; say HOST:PORT of the "
            "one at which others reach it"
        )
    advertise = reachable(_setting(settings, "advertise", otherwise), "advertise")
    return Ports(
        local, listen, peer, gossip, advertise,
        _advertised_beside(settings, "peer", peer, advertise.host),
        _advertised_beside(settings, "gossip", gossip, advertise.host),
        shared, _kafka(settings, kafka, advertise.host),
    )  # fmt: skip


def _kafka(settings: Mapping[str, Any], bound: Address | None, host: str) -> KafkaAddresses | None:
    key = "kafka_advertise"
    if bound is None:
        if settings.get(key):
            raise BadConfig(f"{key}: applies to a port for Kafka clients: set kafka_listen, too")
        return None
    otherwise = Address(host, bound.port) if bound.is_wildcard else bound
    return KafkaAddresses(bound, reachable(_setting(settings, key, otherwise), key))


def _refuse_plain_text(ports: Mapping[str, Address | None], plain: Mapping[str, str]) -> None:
    """Raise BadConfig for an unencrypted port that other computers can reach."""
    bare = [
        key
        for key, each in ports.items()
        if key in plain and each is not None and not each.is_loopback
    ]
    if bare:
        ways = dict.fromkeys(f"{plain[key]} ({key})" for key in bare if key != "shared")
        raise BadConfig(
            f"{bare[0]}: plain text beyond loopback needs --insecure;"
            f" without it, say {', '.join(ways) or plain[bare[0]]}"
        )


def reachable(address: Address, key: str) -> Address:
    """Return an address unless it is a wildcard. Raises BadConfig, which names the setting."""
    if address.is_wildcard:
        raise BadConfig(
            f"{key}: {address} is a wildcard: give an address at which other nodes reach this one"
        )
    return address


def _advertised_beside(
    settings: Mapping[str, Any], port: str, bound: Address, host: str
) -> Address:
    """Return the advertised address of a port: by default at the host of `advertise`."""
    key = f"{port}_advertise"
    own = port in settings and not bound.is_wildcard
    return reachable(_setting(settings, key, bound if own else Address(host, bound.port)), key)


def _setting(settings: Mapping[str, Any], key: str, default: Address) -> Address:
    try:
        return parse_address(str(settings[key])) if key in settings else default
    except ValueError as error:
        raise BadConfig(f"{key}: {error}") from None
