"""Requests between nodes about sessions, on the same links as documents."""

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import TypeIs  # In typing from Python 3.13 on.


class Call(NamedTuple):
    """Entry node to the owner of a document: a question that may be asked twice.

    id: of the sender's. link: the document. kind: what is asked, which names the part that answers.
    remaining_ms: until when an answer is of use. argument: plain values, as the kind says.
    trace: as in an `Operation`.
    """

    id: int
    link: str
    kind: str
    remaining_ms: int
    argument: Any
    trace: str = ""


class Reply(NamedTuple):
    """Answer. status, code, detail: as in HTTP; code "" for success.

    NOT_OWNER as code: ask the present owner of the document. result: plain values, as the kind
    says.
    """

    id: int
    status: int
    code: str
    detail: str
    result: Any


NOT_OWNER = "not-owner"

Calling = Call | Reply


def is_calling(message: object) -> "TypeIs[Calling]":
    """Say whether a message is one of these; asked of all that come from other nodes."""
    return type(message) is Call or type(message) is Reply
