"""Refuse requests of pages in a browser, unless the node itself has served the page (CSRF).

A browser that can reach a node lets any open page send requests to it, and a node without an access
file requires no token. Four rules refuse such requests; other clients do not break them:

    Host is no name of this node     421   a page whose own name leads here (DNS rebinding)
    Origin is not Host               403   a request of another page's script or form
    Sec-Fetch-Site is another site   403   that, or content embedded in a page; links are allowed
    a body without Content-Type      415   sent by browsers without a preflight request

Only pages of `allowed_origins`, none by default, may send requests and read the answers (CORS). For
other pages the node sends no CORS headers, so that a browser sends no request that needs a
preflight, and hides the answers to other requests. Any IP address is accepted as Host: an attacker
can point a name to a node, but not an address. Browsers send Origin to all hosts, but Sec-Fetch-
Site only over TLS or to the local machine.

Source: the Fetch standard; W3C Fetch Metadata; Go's http.CrossOriginProtection, which is milder.
"""

import re
import socket
from collections.abc import Iterable, Mapping
from ipaddress import ip_address

from aiohttp.hdrs import ACCESS_CONTROL_REQUEST_METHOD, CONTENT_TYPE, HOST, ORIGIN
from multidict import istr

from docstore.errors import CrossSite, ForeignHost, UnsupportedMedia
from docstore.http.headers import RequestHead
from docstore.http.methods import READS

ANY_NAME = "*"
LOCALHOST = "localhost"
HOSTS_REMEMBERED_MAX = 256
SITE, MODE, DEST = istr("Sec-Fetch-Site"), istr("Sec-Fetch-Mode"), istr("Sec-Fetch-Dest")
OWN_SITES = ("same-origin", "none")
"""The node's own page, or no page: a user has typed the address."""

PREFLIGHT_S = 600
"""Seconds for which a browser may remember the answer to a preflight request."""

_HOST = re.compile(r"(?:\[([^]]*)\]|([^]:[]*))(?::[0-9]*)?\Z")


class OriginCheck:
    """Checks each request before any other part of the server."""

    def __init__(self, names: Iterable[str], origins: Iterable[str] = ()) -> None:
        """names: further names of the node beside `localhost`; `*` allows any.

        origins: of pages that the operator allows, such as `https://shop.example`.
        """
        self._origins = frozenset(origins)
        self._names = frozenset({LOCALHOST, *(name.lower().rstrip(".") for name in names)})
        self._known: set[str | None] = {None}
        """Values of Host that name this node. None: HTTP/1.0 allows no Host, and browsers send
        one."""

    def check(self, request: RequestHead) -> None:
        """Raise ForeignHost, CrossSite or UnsupportedMedia if another page may be the sender."""
        headers = request.headers
        host = headers.get(HOST)
        if host not in self._known:
            self._judge(host or "")
        if (ORIGIN in headers or SITE in headers) and not self._allows(request):
            _refuse_other_sites(request, host)
        if CONTENT_TYPE not in headers and request.body_exists and request.method not in READS:
            raise UnsupportedMedia(
                "a request with a body must have a Content-Type, such as application/json"
            )

    def shared(self, request: RequestHead) -> Mapping[str, str]:
        """Return the headers that let a page of an allowed origin read the answer; {} for none."""
        if ORIGIN not in request.headers or not self._allows(request):
            return {}
        return {
            "Access-Control-Allow-Origin": request.headers[ORIGIN],
            "Access-Control-Expose-Headers": "*",
            "Vary": ORIGIN,
        }

    def _allows(self, request: RequestHead) -> bool:
        return request.headers.get(ORIGIN, "").lower() in self._origins

    def _judge(self, host: str) -> None:
        if ANY_NAME not in self._names and not self._is_ours(host):
            detail = (
                f"Host must be a name of this node; got {host[:100]!r}: add it to allowed_hosts"
            )
            raise ForeignHost(detail)
        if len(self._known) < HOSTS_REMEMBERED_MAX:
            self._known.add(host)

    def _is_ours(self, host: str) -> bool:
        found = _HOST.match(host)
        if found is None:
            return False
        name = (found[2] or "").lower().removesuffix(".")
        return name in self._names or _is_address(found[1], name)


def is_preflight(request: RequestHead) -> bool:
    """Say whether a browser asks whether a page may send a request."""
    return request.method == "OPTIONS" and ACCESS_CONTROL_REQUEST_METHOD in request.headers


def preflight_headers(methods: str) -> Mapping[str, str]:
    """Return the headers that allow a page's request. methods: separated by commas."""
    return {
        "Access-Control-Allow-Methods": methods,
        "Access-Control-Allow-Headers": "*, Authorization",
        "Access-Control-Allow-Private-Network": "true",
        "Access-Control-Max-Age": str(PREFLIGHT_S),
    }


def machine_names() -> set[str]:
    """Return this machine's own names, with and without the domain."""
    name = socket.gethostname()
    return {name, name.partition(".")[0]}


def _is_address(bracketed: str | None, name: str) -> bool:
    try:
        if bracketed is not None:
            return ip_address(bracketed.partition("%")[0]).version == 6
        return ip_address(name).version == 4
    except ValueError:
        return False


def _refuse_other_sites(request: RequestHead, host: str | None) -> None:
    headers = request.headers
    origin, site = headers.get(ORIGIN), headers.get(SITE)
    if origin is not None:
        scheme, _, authority = origin.lower().partition("://")
        if scheme not in ("http", "https") or host is None or authority != host.lower():
            raise CrossSite(
                f"this node rejects requests of pages of another site, {origin[:100]!r}"
            )
    if site is None or site in OWN_SITES or _follows_a_link(request):
        return
    raise CrossSite("this node rejects requests of pages of another site")


def _follows_a_link(request: RequestHead) -> bool:
    """Return whether the answer opens as a page of its own, which the linking page cannot read."""
    headers = request.headers
    goes = (headers.get(MODE), headers.get(DEST)) == ("navigate", "document")
    return goes and request.method in ("GET", "HEAD")
