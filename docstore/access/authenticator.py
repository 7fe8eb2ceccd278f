"""Map the Authorization header to a user, by a token with a known digest or a signature.

Every invalid token gets the same error after the same work, so an attacker learns nothing from the
text or the time. A token that was proven once costs one look-up from then on.
"""

from collections.abc import Mapping
from hashlib import sha256

from docstore.access.grants import Grants, joined
from docstore.access.rules import Principal, Rules
from docstore.access.web_tokens import claims_of

KNOWN_MAX = 4096
"""Maximum number of remembered headers; one more empties the cache, and all are checked again."""
SCHEME = "bearer"


class Authenticator:
    """Finds the user who sent an Authorization header, by the present access file."""

    def __init__(self, rules: Rules) -> None:
        self.use(rules)

    def use(self, rules: Rules) -> None:
        """Replace the rules, and forget the users that were authenticated by the old ones."""
        self._rules = rules
        self.is_outdated = False
        """Whether the access file became invalid later, so that these rules still apply."""
        self._known: dict[str, Principal] = {}
        self._of_users = {each.name: each.grants for each in rules.users.values()}

    def grants_of(self, user: str) -> Grants | None:
        """Return the present grants of a user; None for an unknown user or one without a token."""
        return self._of_users.get(user)

    def principal(self, header: str, now_s: float) -> Principal | None:
        """Return the user who sent a header; None if it is not valid. now_s: seconds since 1970."""
        found = self._known.get(header)
        if found is None:
            found = self._proven(header, now_s)
            if found is not None:
                if len(self._known) >= KNOWN_MAX:
                    self._known.clear()
                self._known[header] = found
        if found is None or now_s >= found.until_s:
            return None
        return found

    def _proven(self, header: str, now_s: float) -> Principal | None:
        scheme, _, token = header.partition(" ")
        user = _user_of(token, self._rules.users)
        bearer = self._bearer_of(token, now_s)
        return (user or bearer) if scheme.lower() == SCHEME else None

    def _bearer_of(self, token: str, now_s: float) -> Principal | None:
        """Return the user of a JSON Web Token."""
        rules = self._rules
        claims = claims_of(token, rules.keys, rules.audience, now_s)
        if claims is None:
            return None
        held = joined(rules.roles[role] for role in claims.roles)
        return Principal(claims.name, Grants(held), claims.until_s, claims.rate)


def _user_of(token: str, users: Mapping[bytes, Principal]) -> Principal | None:
    """Return the user of an opaque token.

    Compares digests that are equal by a keyed hash, so the time taken reveals nothing about a
    token.
    """
    return users.get(sha256(token.encode("utf-8", "surrogateescape")).digest())
