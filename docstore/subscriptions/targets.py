"""Which URLs a node may be made to call, and at which addresses. Pure.

A client that makes a subscription makes the nodes send requests from inside their network: behind
the firewall, beside the metadata service of a cloud. So a URL has to fit a pattern of the
operator's, and the addresses of its name are checked where the connection is made
(`maintenance/webhooks/calling.py`): an earlier resolution proves nothing. Addresses are
public ones, or in a network that the operator names; an IPv4 address that is written as an IPv6 one
(mapped, NAT64) counts as what it is.

Source: OWASP, Server Side Request Forgery Prevention; IANA's special-purpose address registries.
"""

import re
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from yarl import URL

from docstore.errors import BadRequest
from docstore.subscriptions.settings import CallbackSettings

URL_CHARACTERS_MAX = 2048
_WRITTEN = re.compile(r"https?://[^\s\\@#/?]+(?:[/?][^\s\\#]*)?\Z", re.ASCII | re.IGNORECASE)
"""Pattern of a URL without user and fragment, and without characters that parsers read
differently."""
_NAT64 = IPv6Network("64:ff9b::/96")
_UNICAST = tuple(map(ip_network, ("0.0.0.0/0", "2000::/3")))
_SPECIAL = tuple(
    map(
        ip_network,
        "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24"
        " 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24"
        " 224.0.0.0/3 2001::/23 2001:db8::/32 2002::/16 3fff::/20"
        " 168.63.129.16/32".split(),
    )
)
"""Addresses that are not public; Python's own list differs between its versions. The last one looks
public, but is Azure's metadata service."""

Ip = IPv4Address | IPv6Address


class CallbackRefused(BadRequest):
    """The URL of a receiver is not allowed, or failed its challenge."""

    code = "callback-refused"


class Targets:
    """The URLs and addresses that the settings of a node allow."""

    def __init__(self, settings: CallbackSettings) -> None:
        self._hosts = settings.hosts
        self._networks = settings.networks

    def url(self, text: str) -> URL:
        """Return a URL that may be called if its addresses are allowed. Raises CallbackRefused."""
        url = _parsed(text)
        host = (url.host or "").rstrip(".")
        if not any(each.fits(url.scheme, host) for each in self._hosts):
            raise CallbackRefused(
                f"`callback` must be on a host of callback_hosts; got {url.scheme}://{host[:100]}"
            )
        return url

    def allow(self, address: str) -> bool:
        ip = _meant(ip_address(address.partition("%")[0]))
        if any(ip in each for each in self._networks):
            return True
        return any(ip in each for each in _UNICAST) and not any(ip in each for each in _SPECIAL)


def _parsed(text: str) -> URL:
    if len(text) > URL_CHARACTERS_MAX or not text.isprintable() or not _WRITTEN.match(text):
        raise CallbackRefused(
            "`callback` must be a URL such as https://host/path, without a user and without #"
        )
    try:
        url = URL(text)
        host = url.host  # The host is decoded here, which may raise UnicodeError.
    except ValueError:
        raise CallbackRefused("`callback` must be a URL such as https://host/path") from None
    if not host or url.port == 0 or url.user or url.password:
        raise CallbackRefused(
            "`callback` must be a URL such as https://host/path, without a user and without #"
        )
    return url


def _meant(ip: Ip) -> Ip:
    """Return the IPv4 address in a mapped IPv6 address, or the address itself."""
    if isinstance(ip, IPv4Address):
        return ip
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip
