"""Documents that live with a lease: first attached to the lease, then written.

In this order, because the sweep of an ended lease follows the list of the lease: a late write must
already be on that list. A document names its lease in `documentLeaseLink`, in its body or by the
header `Docstore-Lease`. A lease that would have no effect is refused, since the client relies on
it.
"""

import asyncio
from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

from multidict import istr

from docstore.errors import BadRequest
from docstore.http.backend import Backend
from docstore.http.headers import RequestHead
from docstore.model import json
from docstore.model.document import LEASE
from docstore.model.operation import Answer, Operation
from docstore.model.settings import quoted
from docstore.services.attachments import attach_request
from docstore.services.leases import LEASES, lease_link

HEADER = istr("Docstore-Lease")
WRITES = frozenset({"POST", "PUT", "PATCH"})
PLACE = f"/{LEASE}"


class NotHere(BadRequest):
    """A lease is named in a request that cannot attach a document to it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} must come with a PUT, a POST or a merge patch of one document")


def lease_of(request: RequestHead, operation: Operation, theirs: Mapping[str, Any]) -> str:
    """Return the link of the lease that a write names, "" for none. Raises BadRequest.

    theirs: the document* fields of the body.
    """
    said, named = request.headers.get(HEADER), theirs.get(LEASE)
    if operation.media == "json":
        refuse_header(request)
        refuse_in_patch(json.load(operation.body))
    if said is None and named is None:
        return ""
    if said is not None and operation.verb not in WRITES:
        raise BadRequest(
            f"{HEADER} must come with {', '.join(sorted(WRITES))}; got {operation.verb}"
        )
    said = None if said is None else lease_link(said)
    if said is not None and LEASE in theirs and named != said:
        raise BadRequest(
            f"{HEADER} and {LEASE} must name the same lease; got {said} and {quoted(named)}"
        )
    if operation.level < 3:
        raise BadRequest(
            f"only documents of level 3 can have a lease; this factory has level {operation.level}"
        )
    return _checked(LEASE, named) if said is None else _checked(HEADER, said)


def refuse_header(request: RequestHead) -> None:
    if HEADER in request.headers:
        raise NotHere(HEADER)


def refuse_in_line(theirs: Container[str]) -> None:
    """Refuse a lease in a line of a bulk request."""
    if LEASE in theirs:
        raise NotHere(LEASE)


def refuse_in_patch(patch: Any) -> None:
    """Refuse a JSON patch that touches the lease of a document. Skips malformed steps."""
    for step in patch if isinstance(patch, list) else ():
        if isinstance(step, dict):
            places = [step.get("path"), step.get("from")]
            whole = step.get("value") if step.get("path") == "" else None
            touched = any(isinstance(each, str) and each.startswith(PLACE) for each in places)
            if touched or (isinstance(whole, dict) and LEASE in whole):
                raise NotHere(LEASE)


def _checked(where: str, link: Any) -> str:
    parent, _, name = link.rpartition("/") if isinstance(link, str) else ("", "", "")
    if parent != LEASES or not name:
        raise BadRequest(f"{where} must be the link of a lease, {LEASES}/<id>; got {quoted(link)}")
    return str(link)


async def attach(
    backend: Backend, lease: str, write: Operation, timeout_s: float
) -> tuple[Answer, float]:
    """Add the document to the list of the lease; return the lease's answer and the seconds left.

    If the lease refuses, the document must not be written.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    answer = await backend.submit(attach_request(lease, write.link), timeout_s)
    return answer_of(answer, lease), deadline - loop.time()


async def attached_first(
    backend: Backend, lease: str, write: Operation, timeout_s: float
) -> Answer:
    """Write a document after its lease has listed it. A refusal by the lease is the answer."""
    attached, left_s = await attach(backend, lease, write, timeout_s)
    if not attached.is_success:
        return attached
    return await backend.submit(with_lease(write, lease), left_s)


def answer_of(answer: Answer, lease: str) -> Answer:
    """Translate the answer of a lease into an answer to the request that named the lease."""
    if answer.is_success:
        return answer
    if answer.status == 404:
        return Answer(404, "no-such-lease", f"there is no lease {lease}")
    if answer.status >= 500:
        return Answer(
            503,
            "lease-not-reached",
            f"{lease} could not be reached, retry: {answer.detail or answer.code}",
        )
    return answer._replace(row=None)


def with_lease(operation: Operation, lease: str) -> Operation:
    """Return the write with the link of the lease in its body."""
    state = json.load(operation.body)
    if state.get(LEASE) == lease:
        return operation
    state[LEASE] = lease
    signature = json.signature(state) if operation.signature else b""
    return replace(operation, body=json.dump(state), signature=signature)
