"""Updates of the store's own documents, such as locks, groups and leases, as operations."""

from typing import Any

from docstore.http import bodies, headers
from docstore.http.headers import RequestHead
from docstore.model import json
from docstore.model.fields import Fields
from docstore.model.operation import ANY_TOMBSTONE, Operation
from docstore.model.paths import SUFFIXES, canonical_link
from docstore.model.service import Malformed
from docstore.model.settings import quoted

PATCHES = {"application/json": "", "application/msgpack": ""}
"""Media types of a PATCH that a handler of the store gets."""


def patch_in(request: RequestHead, body: bytes) -> bytes:
    """Return the JSON of a PATCH. Raises BadRequest, UnsupportedMedia."""
    return bodies.json_bytes(body, headers.content_media(request, PATCHES))


def link_in(fields: Fields, path: str) -> str:
    """Return the link of a document that a client names. Raises Refusal."""
    name = fields.text("name")
    if not name or "/" in name or "%" in name or name in SUFFIXES:
        raise Malformed(f"name must be one path segment, but not a utility; got {quoted(name)}")
    return canonical_link(f"{path}/{name}")


def creation(request: RequestHead, link: str, state: Any, *, principal: str = "") -> Operation:
    """Return the POST of a document, which may have been there before, and deleted."""
    return Operation(
        verb="POST", link=link, body=json.dump(state), signature=json.signature(state),
        recreate_below=ANY_TOMBSTONE, key=headers.idempotency_key(request), principal=principal,
    )  # fmt: skip


def handler_patch(request: RequestHead, link: str, raw: bytes, *, principal: str = "") -> Operation:
    """Return the PATCH that a handler of the store executes."""
    return Operation(
        verb="PATCH", link=link, body=raw, media="handler",
        conditions=headers.conditions(request, None), key=headers.idempotency_key(request),
        principal=principal,
    )  # fmt: skip
