"""Who made a version, where nodes ask: its row says who wanted the operation, and documents say it.

Of users of the access file it is the name, of bearers of signed tokens the issuer and the subject.
What the store does by itself (expiry, defaults) nobody has wanted: such versions say nothing.
"""

from urllib.parse import quote

import msgpack

from docstore.model.document import Row

USERS = "/core/access/users"
_NAMED = b"\x9b"
"""How the identity of an operation begins that says who wanted it: an array of eleven (msgpack)."""
_PLACE = 10


def is_named(row: Row) -> bool:
    """Say whether a version says who made it."""
    return row.operation[:1] == _NAMED


def principal_link(row: Row) -> str:
    """Return the link of who made a version that says so."""
    name: str = msgpack.unpackb(row.operation)[_PLACE]
    return user_link(name)


def user_link(name: str) -> str:
    """Return the link of somebody of that name."""
    return f"{USERS}/{quote(name, safe='@:')}"
