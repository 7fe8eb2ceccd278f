"""What an author refuses with is looked at before it goes anywhere, whatever it is."""

from http import HTTPStatus
from typing import Any

import msgpack
import pytest

from docstore.model.service import Refusal, State
from docstore.protocol.road.handle import Refused
from docstore.service import Refused as No
from docstore.service import Service as Author
from tests.docstore.services.test_authored import HEAD, Returning, asked, refused, served


class NoStatus(No):
    """Says nothing of what makes a refusal."""

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
def test_a_refusal_that_is_none_is_a_failure(raised: Exception) -> None:
    assert refused(HEAD, "PATCH", {}, served(Returning(raised))) == (500, "internal")


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (KeyError("amount"), "'amount'"), (None, "None"), ("\ud800 is no letter", "? is no letter"),
        ("x" * 600, "x" * 512), ("\xe4" * 600, "\xe4" * 512),
    ],
)  # fmt: skip
def test_whatever_a_refusal_says_is_told_as_text(message: Any, told: str) -> None:
    outcome = asked(HEAD, "PATCH", {}, served(Returning(No(HTTPStatus.BAD_REQUEST, message))))
    assert isinstance(outcome, Refused)
    assert (outcome.answer.status, outcome.answer.code) == (400, "refused-by-service")
    assert (type(outcome.answer.status), outcome.answer.detail) == (int, told)
    assert msgpack.packb(outcome.answer.detail)


def test_a_check_that_refuses_with_anything_is_looked_at_as_well() -> None:
    class Checking(Author):
        path = "/checking"

        def check(self, state: State) -> None:
            raise NoStatus(5) if "n" in state else No(403, KeyError("n"))  # type: ignore[arg-type]

    assert refused(HEAD, "PUT", {"n": 1}, served(Checking())) == (500, "internal")
    assert refused(HEAD, "PUT", {}, served(Checking())) == (403, "refused-by-service")
