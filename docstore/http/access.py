"""Authenticate requests on a node that has an access file, and check their permissions."""

import time
from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

import structlog
from aiohttp.hdrs import AUTHORIZATION

from docstore.access.grants import ROOT, AccessLevel, Grants
from docstore.access.rates import Rates
from docstore.access.rules import Principal
from docstore.errors import DocstoreError, Forbidden, TooManyRequests, Unauthenticated
from docstore.http.authority import Authority, refusal
from docstore.http.headers import RequestHead
from docstore.http.methods import READS
from docstore.http.permissions import Permission, permission_for, permission_for_all
from docstore.http.routes.route import ADMIN, ANYBODY, INSIDE, OPEN
from docstore.runtime.audit import AUDIT
from docstore.services.registry import FACTORIES
from docstore.streams.replica_set import STREAMS

if TYPE_CHECKING:
    from docstore.access.authenticator import Authenticator

WITHOUT_TOKEN = ("/health/", "/core/ui", "/core/docs")
"""Prefixes of the paths that need no token."""
TELL_AGAIN_S = 60.0
MADE_BELOW = {FACTORIES: ROOT, STREAMS: STREAMS}
"""Path whose POST needs `admin` at the path of what it creates -> the path above all of those."""

log = structlog.get_logger("docstore.http")


class Access:
    """Finds the authority of a request."""

    def __init__(self, authenticator: "Authenticator", *, is_anonymous: bool = False) -> None:
        """is_anonymous: versions of documents do not record their creator."""
        self.is_anonymous = is_anonymous
        self._authenticator = authenticator
        self._rates = Rates()
        self._refused = 0
        self._told_at = -TELL_AGAIN_S

    def authority(self, request: RequestHead) -> "UserAuthority":
        """Return the authority of the request's sender. Raises Unauthenticated, TooManyRequests."""
        path = request.raw_path.partition("?")[0]
        if path.startswith(WITHOUT_TOKEN) and permission_for(request.method, path).what is OPEN:
            return UserAuthority(_NOBODY, "", self)
        said = request.headers.getall(AUTHORIZATION, ())
        header = said[0] if len(said) == 1 else ""
        found = self.principal(header)
        if found is None:
            self._tell()
            raise Unauthenticated
        self.count(found)
        return UserAuthority(found, header, self)

    @property
    def is_outdated(self) -> bool:
        """Whether the access file became invalid, so that its older rules still apply."""
        return self._authenticator.is_outdated

    def principal(self, header: str) -> Principal | None:
        """Return the user who sent an Authorization header; None if the header is not valid now."""
        return self._authenticator.principal(header, time.time())

    def count(self, principal: Principal) -> None:
        """Count one request of a user. Raises TooManyRequests."""
        if principal.rate and not self._rates.allow(
            principal.name, principal.rate, time.monotonic()
        ):
            raise TooManyRequests(
                f"user {principal.name} may send {principal.rate:g} requests a second: retry later"
            )

    def charge(self, principal: Principal, count: int) -> None:
        """Count further requests of a user, without refusing them."""
        self._rates.charge(principal.name, principal.rate, count, time.monotonic())

    def grants_of(self, user: str) -> Grants | None:
        """Return the present grants of a user of the access file; None for an unknown user."""
        return self._authenticator.grants_of(user)

    def may_read_all(self, user: str, path: str) -> bool:
        """Say whether a user of the access file may read all documents at a path and below it."""
        grants = self.grants_of(user)
        what, at = permission_for_all(path)
        return grants is not None and isinstance(what, AccessLevel) and grants.allow(what, at)

    def _tell(self) -> None:
        """Log that requests are refused: the first one, and then once a minute."""
        self._refused += 1
        now = time.monotonic()
        if now - self._told_at >= TELL_AGAIN_S:
            self._told_at = now
            log.warning("refused requests without a valid token", refused=self._refused)


class UserAuthority(Authority):
    """The authority of a user of the access file, or of the bearer of a signed token."""

    __slots__ = ("_access", "_at", "_header", "_principal")

    def __init__(self, principal: Principal, header: str, access: Access) -> None:
        self._at = ""
        self._principal = principal
        self._header = header
        self._access = access

    @property
    def principal(self) -> str:
        """The name that versions record; "" where they must not record one."""
        return "" if self._access.is_anonymous else self._principal.name

    @property
    def name(self) -> str:
        """A user of the file, or the issuer and the subject of a signed token."""
        return self._principal.name

    @property
    def reads_all(self) -> bool:
        """Whether everything may be read."""
        return self._principal.grants.allow(AccessLevel.READ, ROOT)

    def grants_of(self, name: str) -> Mapping[str, AccessLevel] | None:
        """Return path -> level of a user: of the caller, or of any user to an admin of `/`."""
        if name == self._principal.name:
            return self._principal.grants.levels
        if not self._principal.grants.allow(AccessLevel.ADMIN, ROOT):
            return None
        found = self._access.grants_of(name)
        return found.levels if found else None

    def may(self, method: str, link: str) -> bool:
        """Say whether the caller may read (GET) or change a link that the request names."""
        need = permission_for(method, link)
        return need.what is not INSIDE and self._has(need)

    def insist_on_all(self, path: str) -> None:
        """Raise NotFound unless all documents at a path and below may be read."""
        if not self._has(permission_for_all(path)):
            raise refusal("GET", path or ROOT)

    def user(self) -> str:
        """Return the name of the user. Raises Forbidden for the bearer of a signed token."""
        if self._principal.until_s < inf:
            raise Forbidden("a signed token is not accepted here: send the token of a user")
        return self._principal.name

    def runs(self, user: str, path: str) -> bool:
        return self._principal.name == user or self._principal.grants.allow(AccessLevel.ADMIN, path)

    def insist_on_line(self, method: str, link: str) -> None:
        """Check one line as if it were a request of its own."""
        if not self.holds():
            raise Unauthenticated
        self._access.count(self._principal)
        try:
            self.insist(method, link)
        except DocstoreError as error:
            AUDIT.note_refusal(
                "line refused", user=self.name, method=method, path=link, status=error.status
            )
            raise

    def charge(self, lines: int) -> None:
        """Count the lines of an atomic batch."""
        self._access.charge(self._principal, lines)

    def readable_in(self, factory: str) -> Sequence[str]:
        """Return the links of a factory's documents that a grant names one by one."""
        granted = self._principal.grants.levels
        return sorted(link for link in granted if link.rpartition("/")[0] == factory)

    def enter(self, method: str, path: str) -> bool:
        """Admit a request for a path; False if only paths below may be listed."""
        self._at = path
        need = permission_for(method, path)
        if need.what is INSIDE or self._has(need):
            return True
        is_listed = path == FACTORIES or self._principal.grants.is_any_below(need.path)
        if method in READS and is_listed:
            return False
        raise refusal(method, path)

    def usable(self, methods: str) -> str:
        """Return the methods that the caller may use, at least with some bodies."""
        return ", ".join(
            each for each in methods.split(", ") if each in READS or self._may_use(each)
        )

    def _may_use(self, method: str) -> bool:
        need = permission_for(method, self._at)
        if need.what is not INSIDE:
            return self._has(need)
        above = MADE_BELOW.get(self._at)
        if above is None:
            return True
        grants = self._principal.grants
        return grants.allow(ADMIN, above) or grants.is_any_below(above, ADMIN)

    def holds(self) -> bool:
        """Return whether this token still has the same grants."""
        found = self._access.principal(self._header)
        return found is not None and found.grants == self._principal.grants

    def _has(self, need: Permission) -> bool:
        what = need.what
        if isinstance(what, AccessLevel):
            return self._principal.grants.allow(what, need.path)
        return what in (OPEN, ANYBODY)


_NOBODY = Principal("", Grants({}))
