"""Decide by the rules of a node what an access file allows, without the node."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docstore.access.grants import AccessLevel, Grants
from docstore.access.rules import LEVELS, Rules, refuse_lockout, rules_of
from docstore.errors import BadConfig, DocstoreError
from docstore.http.permissions import permission_for
from docstore.http.routes.route import INSIDE
from docstore.model.paths import canonical_link

UNUSABLE = (DocstoreError, OSError, UnicodeDecodeError)
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
Json = dict[str, Any]


def rules_in(file: Path) -> Rules:
    """Return the rules of an access file that a node would accept.

    Raises BadConfig, OSError, UnicodeDecodeError.
    """
    rules = rules_of(file.read_text("utf-8"))
    refuse_lockout(rules, rules)
    if not rules.administrators:
        raise BadConfig('no user and no key is granted admin at "/"; give one "/" = "admin"')
    return rules


def page_of(rules: Rules) -> Json:
    """Return what an access file grants. roles: those that the tokens of each key may have."""
    held = {each.name: each.grants.levels for each in rules.users.values()}
    users = {
        name: {path: level.name.lower() for path, level in held[name].items()}
        for name in sorted(held)
    }
    roles = {name: sorted(rules.keys[name].roles) for name in sorted(rules.keys)}
    return {
        "users": users, "keys": sorted(roles), "roles": roles,
        "administrators": rules.administrators,
    }  # fmt: skip


def decide(user: str, held: Mapping[str, str], method: str, path: str) -> Json:
    """Return whether a user may send a request, and why. held: path -> name of a level.

    Raises BadConfig, BadRequest.
    """
    if method not in METHODS:
        raise BadConfig(f"the method must be one of {', '.join(METHODS)}; got {method!r}")
    link = path if path == "/" else canonical_link(path)
    need = permission_for(method, link)
    grants = Grants({at: LEVELS[level] for at, level in held.items()})
    level = need.what if isinstance(need.what, AccessLevel) else None
    is_allowed = level is None or grants.allow(level, need.path)
    if need.what is INSIDE:
        why = f"it depends: each link that {method} {link} names needs a grant of its own"
    elif level is None:
        why = f"yes: {method} {link} needs no grant"
    else:
        above = {
            at: has for at, has in held.items() if f"{need.path}/".startswith(f"{at.rstrip('/')}/")
        }
        has = ", ".join(f"{has} at {at}" for at, has in above.items()) or "nothing there"
        verdict = "yes" if is_allowed else "no"
        why = f"{verdict}: it needs {level.name.lower()} at {need.path}; {user} has {has}"
    return {
        "user": user, "method": method, "path": link, "allowed": is_allowed, "why": why,
        "needs": None if level is None else {"level": level.name.lower(), "path": need.path},
    }  # fmt: skip
