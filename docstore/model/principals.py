"""Principal of a version: the user that sent the operation, where nodes authenticate users.

It is the name of a user of the access file, or issuer and subject of a signed token. Versions that
the store makes (expiry, defaults) have none.
"""

from urllib.parse import quote

import msgpack

from docstore.model.document import Row

USERS = "/core/access/users"
_NAMED, _MAY_BE_NAMED = b"\x9b", b"\x9c"
"""First byte of an operation's identity with a principal, an array of eleven (msgpack), and of one
that may have a principal, an array of twelve."""
_PLACE = 10


def is_named(row: Row) -> bool:
    first = row.operation[:1]
    return first == _NAMED or (first == _MAY_BE_NAMED and bool(_name_of(row)))


def principal_link(row: Row) -> str:
    return user_link(_name_of(row))


def _name_of(row: Row) -> str:
    name: str = msgpack.unpackb(row.operation)[_PLACE]
    return name


def user_link(name: str) -> str:
    return f"{USERS}/{quote(name, safe='@:')}"
