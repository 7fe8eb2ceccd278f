"""The refusal of an author's handler is checked before it is returned."""

from http import HTTPStatus
from typing import Any

import msgpack
import pytest

from docstore.documents.write_path.handle import Refused
from docstore.model.service import Refusal, State
from docstore.service import Refused as No
from docstore.service import Request
from docstore.service import Service as Author
from docstore.services.authored import AuthoredService, declaration_of
from docstore.services.declared import options_of
from tests.docstore.services.test_authored import (
    HEAD,
    Returning,
    Stamped,
    asked,
    made,
    refused,
    row,
    served,
)


class NoStatus(No):
    """Lacks the members of a refusal."""

    def __init__(self, missing: int) -> None:
        self.missing = missing


class NoDetail(NoStatus):
    status = 409


class Unspeakable:
    def __str__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "raised",
    [
        NoStatus(5), NoDetail(5), No(400, Unspeakable()),  # type: ignore[arg-type]
        Refusal("", status=500), Refusal("", status=200), Refusal("", status="400"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_a_malformed_refusal_is_an_internal_error(raised: Exception) -> None:
    assert refused(HEAD, "PATCH", {}, served(Returning(raised))) == (500, "internal")


@pytest.mark.parametrize(
    ("message", "detail"),
    [
        (KeyError("amount"), "'amount'"), (None, "None"), ("\ud800 is no letter", "? is no letter"),
        ("x" * 600, "x" * 512), ("\xe4" * 600, "\xe4" * 512),
    ],
)  # fmt: skip
def test_the_message_of_a_refusal_is_returned_as_text(message: Any, detail: str) -> None:
    outcome = asked(HEAD, "PATCH", {}, served(Returning(No(HTTPStatus.BAD_REQUEST, message))))
    assert isinstance(outcome, Refused)
    assert (outcome.answer.status, outcome.answer.code) == (400, "refused-by-service")
    assert (type(outcome.answer.status), outcome.answer.detail) == (int, detail)
    assert msgpack.packb(outcome.answer.detail)


def test_a_check_that_refuses_with_anything_is_looked_at_as_well() -> None:
    class Checking(Author):
        path = "/checking"

        def check(self, state: State) -> None:
            raise NoStatus(5) if "n" in state else No(403, KeyError("n"))  # type: ignore[arg-type]

    assert refused(HEAD, "PUT", {"n": 1}, served(Checking())) == (500, "internal")
    assert refused(HEAD, "PUT", {}, served(Checking())) == (403, "refused-by-service")


class Balances(Author):
    """Only moved: neither made, set nor deleted by clients."""

    path = "/balances"

    def on_patch(self, state: State, body: State, request: Request) -> State:
        return {"balance": state["balance"] + body["amount"]}


class Named(Balances):
    """Names its methods without a handler of its own."""

    methods = ("POST", "PUT", "PATCH", "DELETE")


def test_methods_without_a_handler_are_405_once_a_class_handles_any() -> None:
    service, gone = served(Balances()), (405, "method-not-allowed")
    assert service.options.methods == ("PATCH",)
    for head in (None, HEAD):
        for verb in ("POST", "PUT", "DELETE") if head else ("POST", "PUT"):
            assert refused(head, verb, {"balance": 10**6}, service, creates=True)[0] in (405, 409)
    assert refused(None, "PUT", {"balance": 10**6}, service, creates=True) == gone
    assert refused(HEAD, "PUT", {"balance": 10**6}, service) == gone
    assert refused(HEAD, "DELETE", b"", service) == gone
    assert made(HEAD, "PATCH", {"amount": 1}, service) == {"balance": 6}
    assert refused(HEAD, "PATCH", {"balance": 9}, service, media="merge")[0] == 415
    assert made(HEAD, "PUT", {"balance": 9}, served(Named())) == {"balance": 9}


def test_a_put_replaces_only_by_a_handler_that_replaces() -> None:
    service = served(Stamped())  # It has an `on_create` and nothing else.
    assert service.options.methods == ("POST", "PUT")
    assert made(None, "PUT", {}, service, creates=True) == {"n": 1}
    assert refused(row({"n": 1}), "PUT", {"n": 2}, service) == (405, "method-not-allowed")


def test_a_declaration_opens_no_method_without_a_handler() -> None:
    declared = declaration_of(Balances())
    declared["service"]["methods"] = ["POST", "PUT", "PATCH", "DELETE"]
    service = AuthoredService(options_of(declared), Balances())
    assert service.options.methods == ("PATCH",)
    assert refused(HEAD, "PUT", {}, service) == (405, "method-not-allowed")
