"""Principal of a version, where nodes authenticate users: the user that asked for the operation.

It is the name of a user of the access file, or issuer and subject of a signed token. Versions that
the store makes by itself (expiry, defaults) have none.
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
    """Return the link of the user of that name."""
    return f"{USERS}/{quote(name, safe='@:')}"
