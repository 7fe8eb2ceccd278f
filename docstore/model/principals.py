"""Principal of a version: the user that sent the operation, where nodes authenticate users.

It is the name of a user of the access file, or issuer and subject of a signed token. Versions that
the store makes (expiry, defaults) have none.
"""

from urllib.parse import quote

import msgpack

from docstore.model.document import Row

USERS = "/core/access/users"
_NAMED = b"\x9b"
"""First byte of an operation's identity with a principal: an array of eleven (msgpack)."""
_PLACE = 10


def is_named(row: Row) -> bool:
    return row.operation[:1] == _NAMED


def principal_link(row: Row) -> str:
    name: str = msgpack.unpackb(row.operation)[_PLACE]
    return user_link(name)


def user_link(name: str) -> str:
    return f"{USERS}/{quote(name, safe='@:')}"
