"""Requests between nodes about sessions, on the same links as documents."""

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import TypeIs  # Part of typing from Python 3.13 on.


class Call(NamedTuple):
    """Entry node to the owner of a document: a question that may be repeated.

    id: assigned by the sender. link: the document. kind: name of the question, which selects the
    part that answers. remaining_ms: time for an answer. argument: plain values that depend on
    `kind`. trace: as in an `Operation`.
    """

    id: int
    link: str
    kind: str
    remaining_ms: int
    argument: Any
    trace: str = ""


class Reply(NamedTuple):
    """Answer. status, code, detail: as in HTTP; code "" for success.

    A code of NOT_OWNER means: ask the present owner of the document. result: plain values that
    depend on the `kind` of the call.
    """

    id: int
    status: int
    code: str
    detail: str
    result: Any


NOT_OWNER = "not-owner"

Calling = Call | Reply


def is_calling(message: object) -> "TypeIs[Calling]":
    return type(message) is Call or type(message) is Reply
