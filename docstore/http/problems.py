"""Problem details (RFC 9457) for everything that goes wrong, with Xenon's members beside them.

`outcome` says what may be concluded: `not_applied` (a retry is safe) or `unknown` (read first,
or retry with the same Idempotency-Key). No body shows a traceback, SQL or a path of this host.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web

from docstore.errors import DocstoreError, Family
from docstore.operation import Answer

RETRY_AFTER_S = "1"
PROBLEM_TYPE = "application/problem+json"


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    instance: str,
    unknown: bool = False,
    kind: str = "",
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """Return a problem response."""
    title = HTTPStatus(status).phrase
    body: dict[str, Any] = {
        "type": f"https://docstore.invalid/problems/{code}",
        "title": title,
        "status": status,
        "detail": detail or title,
        "instance": instance[:1024],
        "outcome": (Family.UNDECIDED if unknown else Family.REFUSED).value,
        "message": detail or title,
        "statusCode": status,
        "errorCode": code,
        "documentKind": kind or "docstore:ServiceErrorResponse",
    }
    all_headers = dict(headers or {})
    all_headers["Content-Type"] = PROBLEM_TYPE
    if status in (429, 503):
        all_headers["Retry-After"] = RETRY_AFTER_S
    return web.Response(status=status, body=orjson.dumps(body), headers=all_headers)


def problem_of_answer(
    answer: Answer, *, instance: str, kind: str, headers: Mapping[str, str]
) -> web.Response:
    """Return the problem that an answer of the cluster is."""
    code = answer.code or "not-found"
    return problem(
        answer.status,
        code,
        answer.detail,
        instance=instance,
        unknown=answer.unknown,
        kind=kind,
        headers=headers,
    )


def problem_of_error(error: DocstoreError, *, instance: str) -> web.Response:
    """Return the problem that an exception at the edge is."""
    headers = {}
    allow = getattr(error, "allow", None)
    if allow:
        headers["Allow"] = allow
    return problem(
        error.status,
        error.code,
        str(error),
        instance=instance,
        unknown=error.family is Family.UNDECIDED,
        headers=headers,
    )
