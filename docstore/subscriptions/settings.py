"""Receivers that a node may call, as its operator sets them. None by default.

`callback_hosts` are patterns of hosts, of https unless `http://` is written before; addresses are
public ones, or in `callback_networks`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from docstore.errors import BadConfig
from docstore.model.settings import listed, seconds

CALLBACK_KEYS = ("callback_hosts", "callback_networks", "callback_key_file", "callback_retry_s")
RETRY_S = 5.0
_PATTERN = re.compile(
    r"(?:(https?)://)?(\*|(?:\*\.)?[a-z0-9_](?:[a-z0-9._-]{0,251}[a-z0-9])?|\[[0-9a-f:.]+\])\Z"
)

Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class HostPattern:
    """Hosts of one scheme. host: a name, an address, `*.` and a name for its subdomains, `*`."""

    scheme: str
    host: str

    def fits(self, scheme: str, host: str) -> bool:
        if scheme != self.scheme:
            return False
        if self.host.startswith("*"):
            return host.endswith(self.host[1:])
        return host == self.host


@dataclass(frozen=True, slots=True)
class CallbackSettings:
    """Settings of a node for calls; by default it calls no receiver."""

    hosts: tuple[HostPattern, ...] = ()
    networks: tuple[Network, ...] = ()
    """Networks that may be called although their addresses are not public."""
    key_file: str = ""
    """Path of the file of keys in base64, 32 bytes each, one a line: the first encrypts, all
    decrypt."""
    retry_s: float = RETRY_S


def callback_settings(settings: Mapping[str, Any]) -> CallbackSettings:
    found = CallbackSettings(
        tuple(map(_pattern, listed(settings.get("callback_hosts", "")))),
        tuple(map(_network, listed(settings.get("callback_networks", "")))),
        str(settings.get("callback_key_file", "")),
        seconds(settings, "callback_retry_s", RETRY_S),
    )
    if found.hosts and not found.key_file:
        raise BadConfig("callback_hosts: set callback_key_file, too")
    return found


def _pattern(text: str) -> HostPattern:
    match = _PATTERN.match(text.lower())
    if match is None:
        raise BadConfig(
            f"callback_hosts: a host must be name, *.name, * or an address; got {text[:80]!r}"
        )
    return HostPattern(match[1] or "https", match[2].strip("[]"))


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError:
        raise BadConfig(
            f"callback_networks: a network must be such as 10.0.0.0/8; got {text[:80]!r}"
        ) from None
