"""Declarations of factories over HTTP: documents, with warnings about members without effect.

A declaration is refused while documents of its path are stored at another level.
"""

import orjson

from docstore.errors import Conflict
from docstore.http.backend import Backend
from docstore.http.representation import JSON_TYPE, document_json, encode
from docstore.model import json
from docstore.model.document import Row
from docstore.model.service import State
from docstore.services.declared import options_of
from docstore.services.unsupported_options import WARNINGS, unkept


def declaration_bytes(row: Row, kind: str, media: str) -> bytes:
    """Return a declaration in the media type that the client accepts, followed by its warnings."""
    whole = document_json(row, kind)
    warnings = [] if row.deleted else unkept(json.load(row.state))
    if warnings:
        whole = whole[:-1] + b",%b:%b}" % (orjson.dumps(WARNINGS), orjson.dumps(warnings))
    return whole if media == JSON_TYPE else encode(orjson.loads(whole), media)


def without_warnings(raw: bytes, state: State) -> tuple[bytes, State]:
    """Return a declaration without the warnings that a node added and the client sent back."""
    if WARNINGS not in state:
        return raw, state
    own = {name: value for name, value in state.items() if name != WARNINGS}
    return json.dump(own), own


async def check_declarable(backend: Backend, declaration: State, timeout_s: float) -> None:
    """Refuse another level than the documents at this path have, since those would vanish.

    Raises Conflict, Unavailable, or Refusal for an invalid declaration.
    """
    declared = options_of(declaration)
    known = backend.registry.service_at(declared.path)
    others = {1, 2, 3} - {declared.level}
    if known is None or known.options.level == declared.level:
        others = {3} if declared.level < 3 else {1}  # A count at level 1 includes level 2.
    for level in others:
        if await backend.counting(declared.path, timeout_s, level=level):
            detail = (
                f"{declared.path} has documents of another level: delete them, or keep its options"
            )
            raise Conflict(detail)
