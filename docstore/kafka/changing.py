"""Changes of topics for Kafka clients: the permission, the operation, and the line of the audit."""

from typing import Any

from docstore.errors import DocstoreError, Picklable
from docstore.http.backend import Backend
from docstore.kafka.configs import ConfigRefused
from docstore.kafka.dispatch import Call
from docstore.kafka.errors import ErrorCode, code_of_error
from docstore.model.operation import Answer, Operation, Verb
from docstore.model.service import Refusal
from docstore.streams.requests import NoSuchTopic

TIMEOUT_S_MAX = 60.0


class Refused(Picklable, Exception):
    """A change that is refused; code: Kafka's, for the client."""

    def __init__(self, code: ErrorCode, detail: str) -> None:
        super().__init__(detail)
        self.code = code


def refused(error: Exception) -> Refused:
    """Return the refusal for an error of a change; raise errors that are not refusals."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, ConfigRefused):
        return Refused(ErrorCode.invalid_config, str(error))
    if isinstance(error, Refusal):
        return Refused(ErrorCode.invalid_request, error.detail)
    if isinstance(error, DocstoreError):
        return Refused(code_of_error(error), str(error))
    raise error


def insist(call: Call, method: str, link: str) -> None:
    """Raise Refused unless the user may use this method of HTTP at the link."""
    if not call.may(method, link):
        raise Refused(ErrorCode.topic_authorization_failed, f"no grant for {method} at {link}")


async def change(
    backend: Backend,
    call: Call,
    verb: Verb,
    link: str,
    timeout_s: float,
    *,
    invalid: ErrorCode = ErrorCode.invalid_request,
    **more: Any,
) -> Answer:
    """Change the document of a topic; return the answer if it is a success.

    invalid: code of a change that the topic does not accept. Raises Refused.
    """
    insist(call, "PUT" if verb == "POST" else verb, link)
    operation = Operation(verb=verb, link=link, principal=call.authority.principal, **more)
    answer = await backend.submit(operation, timeout_s)
    call.note_change(verb, link, answer.status)
    if answer.is_success:
        return answer
    if answer.code == "already-exists":
        raise Refused(ErrorCode.topic_already_exists, answer.detail)
    if answer.status == 404:
        raise NoSuchTopic(answer.detail)
    if answer.unknown:
        raise Refused(ErrorCode.request_timed_out, answer.detail)
    if answer.status >= 500:
        raise Refused(ErrorCode.leader_not_available, answer.detail)
    raise Refused(invalid, answer.detail)


def patience_s(call: Call) -> float:
    """Return the timeout of a request in seconds, within bounds."""
    return min(max(float(call.request.timeout), 0.001), TIMEOUT_S_MAX)
