"""The access file: which users may do what. TOML; a file with one fault is refused as a whole.

    [roles.editor]
    "/films" = "write"
    "/core/streams/clicks" = "read"

    [users.ann]
    tokens = ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]
    roles = ["editor"]

    audience = "films"                 # before all tables; only with keys

    [keys.login-2026]
    issuer = "https://login.example"
    public_key = "-----BEGIN PUBLIC KEY----- ..."
    roles = ["editor"]

A user's tokens are kept as the SHA-256 of each, in hexadecimal; two of them while one replaces the
other. A key proves JSON Web Tokens, and says which roles these may give. Both take
`requests_per_second`: of the user, and of each subject of the key's tokens, at each node.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from docstore.access.grants import ROOT, AccessLevel, Grants, joined
from docstore.errors import BadConfig, BadRequest
from docstore.model.paths import canonical_link
from docstore.model.settings import quoted

if TYPE_CHECKING:
    from docstore.access.web_tokens import VerificationKey

RATE = "requests_per_second"
LEVELS = {level.name.lower(): level for level in AccessLevel}
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_PATTERN = re.compile(r"[*?\[\]{}<>^|]")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,127}\Z")

Roles = Mapping[str, Mapping[str, AccessLevel]]
"""Name -> path -> level."""


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated user.

    until_s: end of the login, in seconds since 1970. rate: requests per second, 0 for any.
    """

    name: str
    grants: Grants
    until_s: float = inf
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Rules:
    """Parsed access file. users: by the SHA-256 of a token. keys: by `kid`."""

    users: Mapping[bytes, Principal]
    keys: "Mapping[str, VerificationKey]"
    roles: Roles
    audience: str

    @property
    def administrators(self) -> list[str]:
        """Return the administrators: users, and keys whose tokens may have such a role."""
        users = {
            each.name for each in self.users.values() if each.grants.allow(AccessLevel.ADMIN, ROOT)
        }
        may_run = {
            name for name, levels in self.roles.items() if levels.get(ROOT) is AccessLevel.ADMIN
        }
        keys = [f"keys.{name}" for name, key in self.keys.items() if key.roles & may_run]
        return sorted(users) + sorted(keys)


def changes_of(before: Rules, after: Rules) -> dict[str, list[str]]:
    """Return the names that two files differ in: added, changed, removed; no list is empty.

    A user also changes with a token or a grant.
    """
    found: dict[str, list[str]] = {}
    for kind, old, new in (
        ("users", _by_name(before), _by_name(after)),
        ("roles", before.roles, after.roles),
        ("keys", before.keys, after.keys),
    ):
        found[f"{kind}_added"] = sorted(new.keys() - old.keys())
        found[f"{kind}_changed"] = sorted(
            name for name in new.keys() & old.keys() if new[name] != old[name]
        )
        found[f"{kind}_removed"] = sorted(old.keys() - new.keys())
    return {name: names for name, names in found.items() if names}


def _by_name(rules: Rules) -> Mapping[str, dict[bytes, Principal]]:
    found: dict[str, dict[bytes, Principal]] = {}
    for digest, user in rules.users.items():
        found.setdefault(user.name, {})[digest] = user
    return found


def refuse_lockout(before: Rules, after: Rules) -> None:
    """Refuse rules without any user, or without an administrator if there was one: BadConfig."""
    if not after.users and not after.keys:
        raise BadConfig("the file must have a user or a key: without, all requests are refused")
    if before.administrators and not after.administrators:
        raise BadConfig('the file must keep an administrator: a user or key with "/" = "admin"')


def rules_of(text: str) -> Rules:
    """Parse the text of an access file. Raises BadConfig with one line."""
    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadConfig(f"the file must be TOML: {error}") from None
    _insist_on_members("", said, {"audience", "roles", "users", "keys"})
    roles = {name: _levels(name, paths) for name, paths in _tables(said, "roles")}
    keys = {name: _key(name, table, roles) for name, table in _tables(said, "keys")}
    audience = said.get("audience", "")
    if not isinstance(audience, str) or bool(audience) != bool(keys):
        raise BadConfig("audience must be a string with [keys.*], and left out without keys")
    return Rules(_users(said, roles), keys, roles, audience)


def _users(said: Mapping[str, Any], roles: Roles) -> dict[bytes, Principal]:
    users: dict[bytes, Principal] = {}
    for name, table in _tables(said, "users"):
        where = f"users.{name}"
        _insist_on_members(where, table, {"tokens", "roles", RATE})
        held = joined(roles[role] for role in _roles(where, table, roles))
        rate = _rate(where, table)
        for token in _texts(where, table, "tokens"):
            if not _DIGEST.match(token):
                raise BadConfig(f"{where}: each token must be a SHA-256 in 64 digits 0-9, a-f")
            if bytes.fromhex(token) in users:
                raise BadConfig(f"{where}: two users have the same token; give each user its own")
            users[bytes.fromhex(token)] = Principal(name, Grants(held), rate=rate)
    return users


def _key(name: str, table: Mapping[str, Any], roles: Roles) -> "VerificationKey":
    from docstore.access.web_tokens import key_of  # noqa: PLC0415 - It loads `cryptography`.

    where = f"keys.{name}"
    _insist_on_members(where, table, {"issuer", "public_key", "roles", RATE})
    issuer, pem = table.get("issuer"), table.get("public_key")
    if not isinstance(issuer, str) or not issuer or not isinstance(pem, str):
        raise BadConfig(f"{where}: issuer and public_key must be strings, and issuer not empty")
    try:
        return key_of(pem, issuer, frozenset(_roles(where, table, roles)), _rate(where, table))
    except ValueError as error:
        raise BadConfig(f"{where}: public_key: {error}") from None


def _rate(where: str, table: Mapping[str, Any]) -> float:
    rate = table.get(RATE, 0)
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < inf:
        raise BadConfig(f"{where}: {RATE} must be a number, 0 for no limit; got {quoted(rate)}")
    return float(rate)


def _levels(role: str, paths: Mapping[str, Any]) -> dict[str, AccessLevel]:
    levels = {}
    for path, level in paths.items():
        if not isinstance(level, str) or level not in LEVELS:
            raise BadConfig(
                f"roles.{role}: {path!r} must be one of {', '.join(LEVELS)}; got {quoted(level)}"
            )
        if _PATTERN.search(path):
            raise BadConfig(
                f"roles.{role}: a path must not be a pattern: its grant holds for all below;"
                f" got {path!r}"
            )
        try:
            levels[path if path == "/" else canonical_link(path)] = LEVELS[level]
        except BadRequest as error:
            raise BadConfig(f"roles.{role}: {path!r}: {error}") from None
    return levels


def _roles(where: str, table: Mapping[str, Any], roles: Roles) -> list[str]:
    names = _texts(where, table, "roles")
    for name in names:
        if name not in roles:
            raise BadConfig(f"{where}: roles must name roles of the file; got {name[:80]!r}")
    return names


def _texts(where: str, table: Mapping[str, Any], member: str) -> list[str]:
    texts = table.get(member)
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise BadConfig(f"{where}: {member} must be a list of strings; got {quoted(texts)}")
    return texts


def _tables(said: Mapping[str, Any], member: str) -> list[tuple[str, Mapping[str, Any]]]:
    tables = said.get(member, {})
    if not isinstance(tables, dict) or not all(isinstance(each, dict) for each in tables.values()):
        raise BadConfig(f"{member} must consist of tables, such as [{member}.name]")
    for name in tables:
        if not _NAME.match(name):
            raise BadConfig(
                f"{member}: a name must consist of letters, digits and _ . @ -; got {name[:80]!r}"
            )
    return list(tables.items())


def _insist_on_members(where: str, table: Mapping[str, Any], known: set[str]) -> None:
    """Refuse a misspelt member: it would change grants in a way that the author does not intend."""
    for member in table:
        if member not in known:
            before = f"{where}: " if where else ""
            raise BadConfig(
                f"{before}a key must be one of {', '.join(sorted(known))}; got {member[:80]!r}"
            )
