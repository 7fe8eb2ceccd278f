"""Parse a line of a bulk request: one operation, with members in place of a request's headers.

The counterpart of `documents.py`, which reads a path, headers and a body. The body of a document
has the same form in both (`bodies.py`).
"""

from collections.abc import Sequence
from typing import Any

from docstore.errors import BadRequest, DocstoreError, MethodNotAllowed
from docstore.http import attaching, bodies, headers
from docstore.http.documents import PreconditionRequired
from docstore.http.lines import LINE_DEPTH_MAX
from docstore.model import json
from docstore.model.operation import ANY_TOMBSTONE, Conditions, Media, Operation, Verb
from docstore.model.service import ServiceOptions
from docstore.model.settings import quoted
from docstore.services.registry import FACTORIES, QUOTAS, SNAPSHOTS

NO_SEQUENCE = -1
WRITER = frozenset({"job", "batch", "sequence"})
VERBS: Sequence[Verb] = ("DELETE", "PATCH", "POST", "PUT")
SPELLED = {spelling: verb for verb in VERBS for spelling in (verb, verb.lower())}
ONE_BY_ONE = frozenset({FACTORIES, QUOTAS.path, SNAPSHOTS})
"""Factories whose documents need checks, or lines of the audit log, that lines skip: so each needs
a request of its own."""
PLAIN = frozenset({"op", "link", "body", "writer"})
"""Members of a plain line: an operation on a document, and the bulk job that sends it."""
MEMBERS = frozenset({"op", "link", "body", "ifVersion", "mustExist", "recreate", "key", "writer"})


class NoOperation(BadRequest):
    """A line cannot be parsed, or is not an operation."""


def parsed(line: Any) -> dict[str, Any]:
    """Return a line's members. Raises NoOperation, or the line itself if it is an error."""
    if isinstance(line, DocstoreError):
        raise line
    if isinstance(line, bytes):
        try:
            line = json.parse(line, LINE_DEPTH_MAX)
        except BadRequest as error:
            raise NoOperation(str(error)) from None
    if not isinstance(line, dict):
        raise NoOperation(f"a line must be an object; got {quoted(line)}")
    if not isinstance(line.get("link"), str):
        raise NoOperation(f"link must be a path; got {quoted(line.get('link'))}")
    return line


def operation_of(
    value: dict[str, Any],
    factory: str,
    options: ServiceOptions,
    bytes_max: int,
    principal: str = "",
) -> Operation:
    """Return the operation of a parsed line, on a document of `factory`.

    Raises BadRequest and other errors, which are the answer to this line.
    """
    verb = _verb(value.get("op", "PUT"))
    is_plain = PLAIN.issuperset(value)
    recreate, key = (False, "") if is_plain else _recreate_and_key(value)
    conditions = None
    if not is_plain or options.strict_updates or options.needs_precondition:
        conditions = _conditions(value, verb, options)
    link, body = value["link"], bodies.NOTHING
    patch: Media = "handler" if verb == "PATCH" else ""
    state = value.get("body")
    if verb == "PATCH" and isinstance(state, list):  # An array is a JSON patch (RFC 6902).
        attaching.refuse_in_patch(state)
        body, patch = bodies.change_of(state, bytes_max=bytes_max), "json"
    elif verb != "DELETE":
        body = _body(state, verb, bytes_max)
        if link == factory:
            link = bodies.new_link(body.theirs, factory, key)
        elif body.theirs:
            bodies.check_self_link(body.theirs, link)
    if verb not in options.methods:
        allowed = ", ".join(sorted(options.methods))
        raise MethodNotAllowed(f"op must be one of {allowed} at {factory}; got {verb}")
    if factory in ONE_BY_ONE:
        raise BadRequest(f"{factory} cannot be written in bulk: PUT or POST each document")
    writer = value.get("writer")
    return Operation(
        verb=verb,
        link=link,
        body=body.raw,
        media=patch,
        signature=body.signature,
        conditions=conditions,
        recreate_below=ANY_TOMBSTONE if recreate else None,
        creates=options.put_creates,
        key=key,
        level=options.level,
        writer=() if writer is None else _writer(writer, options.level),
        principal=principal,
    )


def _verb(op: Any) -> Verb:
    verb = SPELLED.get(op) or SPELLED.get(op.upper()) if isinstance(op, str) else None
    if verb is None:
        raise BadRequest(f"op must be one of {', '.join(VERBS)}; got {quoted(op)}")
    return verb


def _recreate_and_key(value: dict[str, Any]) -> tuple[bool, str]:
    if not MEMBERS.issuperset(value):
        raise BadRequest(f"a line must not have the member {quoted(min(value.keys() - MEMBERS))}")
    recreate, key = value.get("recreate", False), _key(value)
    if not isinstance(recreate, bool):
        raise BadRequest(f"recreate must be true or false; got {quoted(recreate)}")
    return recreate, key


def _body(state: Any, verb: str, bytes_max: int) -> bodies.WrittenBody:
    if not isinstance(state, dict):
        raise BadRequest(f"body must be an object; got {quoted(state)}")
    if verb == "PATCH":
        body = bodies.change_of(state, bytes_max=bytes_max)
    else:
        body = bodies.written_of(state, bytes_max=bytes_max)
    if body.theirs:
        attaching.refuse_in_line(body.theirs)
    return body


def _conditions(value: dict[str, Any], verb: str, options: ServiceOptions) -> Conditions | None:
    version = _version(value, options)
    if options.needs_precondition and version is None and verb != "POST":
        raise PreconditionRequired(
            f"{options.path} requires ifVersion: the version that the line is based on"
        )
    must_exist = value.get("mustExist", False)
    if not isinstance(must_exist, bool):
        raise BadRequest(f"mustExist must be true or false; got {quoted(must_exist)}")
    if must_exist or version is not None:
        return Conditions(match="*" if must_exist else None, version=version)
    return None


def _version(value: dict[str, Any], options: ServiceOptions) -> int | None:
    """Return the version that a line is based on, None if it names none."""
    version = bodies.sent_version({"documentVersion": value.get("ifVersion")}, name="ifVersion")
    body = value.get("body")
    if version is None and options.strict_updates and isinstance(body, dict):
        return bodies.sent_version(body)
    return version


def _key(value: dict[str, Any]) -> str:
    key = value.get("key", "")
    if not isinstance(key, str) or len(key.encode()) > headers.KEY_BYTES_MAX:
        raise BadRequest(
            f"key must be a string of at most {headers.KEY_BYTES_MAX} bytes; got {quoted(key)}"
        )
    return key


def _writer(value: Any, level: int) -> tuple[Any, ...]:
    """Return (job, batch, sequence) of a line that a bulk job sends."""
    if level < 3:
        raise BadRequest(
            f"writer can be sent only to a factory with ENFORCE_QUORUM; this one has level {level}"
        )
    fits = isinstance(value, dict) and WRITER.issuperset(value) and "batch" in value
    if not fits or not _is_name(value.get("job")):
        raise BadRequest('writer must be {"job": string, "batch": number, "sequence"?: number}')
    batch, sequence = value["batch"], value.get("sequence", NO_SEQUENCE)
    if not _is_number(batch, 0) or not _is_number(sequence, NO_SEQUENCE):
        raise BadRequest(
            f"writer: batch and sequence must be whole numbers from 0 to {(1 << 63) - 1}"
        )
    return value["job"], batch, sequence


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value.encode()) <= headers.KEY_BYTES_MAX


def _is_number(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 63
