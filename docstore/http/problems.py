"""Problem details (RFC 9457) for all errors, with Xenon's members beside them.

`outcome` says what a client may conclude: `not_applied` (a retry is safe) or `unknown` (read first,
or retry with the same Idempotency-Key). No body shows a traceback, SQL or a path of this host.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson

from docstore.errors import DocstoreError, Family
from docstore.http.reply import Reply, header_lines
from docstore.model.operation import Answer

INSTANCE_CHARACTERS_MAX = 256
DETAIL_CHARACTERS_MAX = 512
RETRY_AFTER = b"Retry-After: 1\r\n"
CHALLENGE = b'WWW-Authenticate: Bearer realm="docstore"\r\n'
NOTHING_MORE: Mapping[str, object] = {}
PROBLEM_TYPE = b"Content-Type: application/problem+json\r\n"


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    instance: str,
    unknown: bool = False,
    kind: str = "",
    head: bytes = b"",
    closes: bool = False,
    more: Mapping[str, object] = NOTHING_MORE,
) -> Reply:
    """Return a problem as a reply. instance: the raw path of the request, or with its query.

    more: members beside those of every problem.
    """
    title = HTTPStatus(status).phrase
    shown = _printable(detail)[:DETAIL_CHARACTERS_MAX] or title
    body: dict[str, Any] = {
        "type": f"https://docstore.invalid/problems/{code}",
        "title": title,
        "status": status,
        "detail": shown,
        "instance": _printable(instance.partition("?")[0])[:INSTANCE_CHARACTERS_MAX],
        "outcome": (Family.UNDECIDED if unknown else Family.REFUSED).value,
        "message": shown,
        "statusCode": status,
        "errorCode": code,
        "documentKind": kind or "docstore:ServiceErrorResponse",
        **more,
    }
    head = PROBLEM_TYPE + head
    if status in (429, 503):
        head += RETRY_AFTER
    return Reply(status, orjson.dumps(body), head, closes=closes)


def problem_of_answer(answer: Answer, *, asked: str, kind: str, head: bytes) -> Reply:
    """Return the problem for an answer of the cluster. asked: a path, with or without a query."""
    missing = f"there is nothing at {asked}" if answer.status == 404 else ""
    return problem(
        answer.status,
        answer.code or "not-found",
        answer.detail or missing,
        instance=asked,
        unknown=answer.unknown,
        kind=kind,
        head=head,
    )


def problem_of_error(error: DocstoreError, *, instance: str) -> Reply:
    allow = getattr(error, "allow", "")
    head = header_lines({"Allow": allow}) if allow else b""
    if error.status == 401:
        head = CHALLENGE
    return problem(
        error.status,
        error.code,
        str(error),
        instance=instance,
        unknown=error.family is Family.UNDECIDED,
        head=head,
        closes=error.status in (408, 413),
    )


def _printable(text: str) -> str:
    """Replace characters that cannot be encoded or would confuse a terminal."""
    return "".join([each if each.isprintable() else "\ufffd" for each in text])
