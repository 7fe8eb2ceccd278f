"""Updates through an author's handlers, and the limits of handlers."""

import re
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from types import MappingProxyType, ModuleType
from typing import Any, ClassVar

import pytest

from docstore.documents.write_path.handle import (
    STATE_BYTES_MAX,
    New,
    Outcome,
    Refused,
    Unchanged,
    handle,
)
from docstore.model import json
from docstore.model.document import EXPIRY, LEASE, Row
from docstore.model.operation import Operation
from docstore.model.service import Refusal, Service, State
from docstore.service import UNCHANGED, Request, merged
from docstore.service import Refused as No
from docstore.service import Service as Author
from docstore.services.authored import (
    AuthoredService,
    Call,
    MissingService,
    called_plainly,
    declaration_of,
)
from docstore.services.declared import options_of
from tests.source import ROOT

LINK = "/accounts/a"
NOW_US = 1_700_000_000_000_000


def served(author: Author, call: Call = called_plainly) -> AuthoredService:
    return AuthoredService(options_of(declaration_of(author)), author, call)


def row(state: Any, version: int = 3, *, deleted: bool = False) -> Row:
    raw = state if isinstance(state, bytes) else json.dump(state)
    return Row(0, 9, 5, "n1", LINK, version, "PUT", 1, deleted, b"s" * 16, b"", b"", raw)


def asked(head: Row | None, verb: str, body: Any, by: Service, **members: Any) -> Outcome:
    raw = body if isinstance(body, bytes) else json.dump(body)
    media = members.pop("media", "handler" if verb == "PATCH" else "")
    operation = Operation(verb=verb, link=LINK, body=raw, media=media, **members)  # type: ignore[arg-type]
    return handle(head, operation, by, floor=-1, now_us=lambda: NOW_US)


def made(head: Row | None, verb: str, body: Any, by: Service, **members: Any) -> Any:
    outcome = asked(head, verb, body, by, **members)
    assert isinstance(outcome, New), outcome
    return json.load(outcome.state)


def refused(head: Row | None, verb: str, body: Any, by: Service, **more: Any) -> tuple[int, str]:
    outcome = asked(head, verb, body, by, **more)
    assert isinstance(outcome, Refused), outcome
    return outcome.answer.status, outcome.answer.code


class Accounts(Author):
    path = "/accounts"
    kind = "bank:Account"

    def on_create(self, body: State, request: Request) -> State:
        return {"owner": body["owner"], "balance": 0, "since": request.now_us}

    def on_put(self, state: State, body: State, request: Request) -> State:
        return body | {"balance": state["balance"]}

    def on_patch(self, state: State, body: State, request: Request) -> Any:
        if not body["amount"]:
            state["balance"] = "spoilt"
            return UNCHANGED
        state["balance"] += body["amount"]
        if state["balance"] < 0:
            raise No(409, "there is not so much in it")
        return state

    def on_delete(self, state: State, request: Request) -> None:
        if state["balance"]:
            raise No(422, "there is money in it")

    def check(self, state: State) -> None:
        if state["balance"] > 100:
            raise No(403, "nobody may have so much")
        state.clear()


ACCOUNTS = served(Accounts())
HEAD = row({"owner": "ann", "balance": 5})


def test_each_request_has_its_handler() -> None:
    first = {"owner": "ann", "balance": 0, "since": NOW_US}
    assert made(None, "POST", {"owner": "ann", "balance": 9}, ACCOUNTS) == first
    assert made(None, "PUT", {"owner": "ann"}, ACCOUNTS, creates=True) == first
    tombstone = row({"balance": 7}, deleted=True)
    assert made(tombstone, "PUT", {"owner": "ann"}, ACCOUNTS, creates=True) == first
    assert made(HEAD, "PUT", {"owner": "bob"}, ACCOUNTS) == {"owner": "bob", "balance": 5}
    assert made(HEAD, "PATCH", {"amount": 2}, ACCOUNTS) == {"owner": "ann", "balance": 7}
    assert refused(HEAD, "DELETE", b"", ACCOUNTS) == (422, "refused-by-service")
    gone = asked(row({"balance": 0}), "DELETE", b"", ACCOUNTS)
    assert isinstance(gone, New)
    assert (gone.deleted, gone.version, gone.state) == (True, 4, b'{"balance":0}')


def test_a_handler_may_leave_a_document_unchanged() -> None:
    assert asked(HEAD, "PATCH", {"amount": 0}, ACCOUNTS) == Unchanged(HEAD)


def test_a_handler_refuses_with_a_status_of_its_choice() -> None:
    outcome = asked(HEAD, "PATCH", {"amount": -6}, ACCOUNTS)
    assert isinstance(outcome, Refused)
    answer = outcome.answer
    said = (409, "refused-by-service", "there is not so much in it")
    assert (answer.status, answer.code, answer.detail) == said
    assert answer.row == HEAD
    assert not answer.unknown
    with pytest.raises(ValueError, match="got 500"):
        No(500, "that is a failure")


def test_every_state_is_checked_and_the_check_changes_nothing() -> None:
    assert refused(HEAD, "PATCH", {"amount": 100}, ACCOUNTS) == (403, "refused-by-service")
    assert made(HEAD, "PATCH", {"amount": 95}, ACCOUNTS)["balance"] == 100


def test_patches_that_would_pass_by_the_handler_are_not_taken() -> None:
    refusal = (415, "unsupported-media-type")
    assert refused(HEAD, "PATCH", {"balance": 90}, ACCOUNTS, media="merge") == refusal
    replaced = [{"op": "replace", "path": "/balance", "value": 90}]
    assert refused(HEAD, "PATCH", replaced, ACCOUNTS, media="json") == refusal
    assert refused(HEAD, "PATCH", [1], ACCOUNTS) == (400, "malformed")


def test_the_sample_of_the_page_behaves_as_the_page_says() -> None:
    page = (ROOT / "docs" / "services.md").read_text("utf-8")
    found: dict[str, Any] = {}
    exec(page.partition("```python\n")[2].partition("```")[0], found)
    sample = served(found["Accounts"]())
    account = made(None, "POST", {"owner": "ann", "balance": 10**6}, sample)
    assert account == {"owner": "ann", "balance": 0}
    account = made(row(account), "PATCH", {"amount": 10}, sample)
    assert refused(row(account), "PATCH", {"amount": -11}, sample) == (409, "refused-by-service")
    assert refused(row(account), "PATCH", {"amount": "1"}, sample) == (400, "refused-by-service")
    assert refused(row(account), "PUT", {"balance": 10**6}, sample)[0] == 405


class Seen(Author):
    path = "/seen"
    requests: list[Request]

    def __init__(self) -> None:
        self.requests = []

    def on_create(self, body: State, request: Request) -> State:
        self.requests.append(request)
        return body

    def on_delete(self, state: State, request: Request) -> None:
        self.requests.append(request)


def test_a_handler_knows_of_its_request() -> None:
    author = Seen()
    service = served(author)
    asked(None, "PUT", {}, service, creates=True)
    asked(row({}, 7, deleted=True), "POST", {}, service, recreate_below=9)
    asked(row({}, 8), "DELETE", b"", service)
    assert author.requests == [
        Request(method="PUT", link=LINK, version=0, now_us=NOW_US),
        Request(method="POST", link=LINK, version=8, now_us=NOW_US),
        Request(method="DELETE", link=LINK, version=9, now_us=NOW_US),
    ]


def test_an_idempotent_post_that_replaces_calls_on_put() -> None:
    class Boards(Seen):
        methods = ("POST",)
        options = (*Author.options, "IDEMPOTENT_POST")

        def on_put(self, state: State, body: State, request: Request) -> State:
            return {"before": state, "by": request.method}

    service = served(Boards())
    assert made(None, "POST", {"a": 1}, service) == {"a": 1}
    assert made(row({"a": 1}), "POST", {}, service) == {"before": {"a": 1}, "by": "POST"}
    assert refused(row({"a": 1}), "PUT", {}, service) == (405, "method-not-allowed")


class Plain(Author):
    path = "/accounts"


def test_a_class_without_handlers_behaves_as_any_factory() -> None:
    service = served(Plain())
    assert not service.checks
    assert not service.handled
    raw = b'{ "a": 1.0, "b": 2 }'
    for outcome in (asked(None, "POST", raw, service), asked(HEAD, "PUT", raw, service)):
        assert isinstance(outcome, New)
        assert outcome.state == raw
    head = row({"a": 1, "b": 2})
    assert made(head, "PATCH", {"b": None}, service) == {"a": 1}
    assert made(head, "PATCH", {"b": None}, service, media="merge") == {"a": 1}
    assert made(head, "PATCH", [{"op": "remove", "path": "/a"}], service, media="json") == {"b": 2}
    assert asked(head, "PATCH", {"a": 1.0}, service) == Unchanged(head)
    assert made(head, "PATCH", {"a": True}, service) == {"a": True, "b": 2}


class Stamped(Author):
    path = "/accounts"

    def on_create(self, body: State, request: Request) -> State:
        return body | ({"n": 1} if "n" not in body else {})


def test_bytes_that_a_handler_did_not_change_are_kept_as_they_came() -> None:
    for raw, kept in ((b'{ "n": 2, "a": 1.0 }', b'{ "n": 2, "a": 1.0 }'), (b"{ }", b'{"n":1}')):
        outcome = asked(None, "POST", raw, served(Stamped()))
        assert isinstance(outcome, New)
        assert outcome.state == kept
        assert outcome.signature == json.signature(json.load(kept))


class Letters(Author):
    """Documents that are created and patched, and never replaced."""

    path = "/letters"
    methods = ("POST", "PATCH")


def test_methods_that_a_service_does_not_take_are_refused_by_the_owner_too() -> None:
    service = served(Letters())
    head = row({"a": 1})
    for verb in ("PUT", "DELETE"):
        assert refused(head, verb, {}, service) == (405, "method-not-allowed")
    assert refused(None, "PUT", {}, service, creates=True) == (405, "method-not-allowed")
    assert made(None, "POST", {}, service) == {}
    assert made(head, "PATCH", {"b": 1}, service, media="merge") == {"a": 1, "b": 1}


class Returning(Author):
    """Returns or raises `value`."""

    path = "/returning"

    def __init__(self, value: Any) -> None:
        self.value = value

    def on_patch(self, state: State, body: State, request: Request) -> Any:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


CIRCLE: dict[str, Any] = {}
CIRCLE["a"] = CIRCLE


@pytest.mark.parametrize(
    "value",
    [
        None, 1, [], "text", UNCHANGED.__class__, {1: 2}, {"a": float("nan")}, {"a": 1 << 64},
        {"a": (1, 2)}, {"a": {1}}, {"a": b""}, {"a": object()}, {"a": "\ud800"}, CIRCLE,
        {EXPIRY: -1}, {EXPIRY: "tomorrow"}, {EXPIRY: True}, ZeroDivisionError(), KeyError("a"),
        Refusal.__call__,
    ],
)  # fmt: skip
def test_a_failing_handler_is_an_internal_error_and_changes_nothing(value: Any) -> None:
    assert refused(HEAD, "PATCH", {}, served(Returning(value))) == (500, "internal")


@pytest.mark.parametrize(
    "value", [OrderedDict(a=[1]), defaultdict(list, a=[1]), {"a": [1], "b": OrderedDict(c=1)}]
)
def test_a_state_may_be_a_dict_of_any_class(value: Any) -> None:
    after = made(HEAD, "PATCH", {}, served(Returning(value)))
    assert (type(after), after) == (dict, json.load(json.dump(value)))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            {"a": {"b": [1, "\ud800"]}},
            r"\['a'\]\['b'\]\[1\]: a string must not contain a lone surrogate",
        ),
        (
            {"a": [{"b": {1}}]},
            r"\['a'\]\[0\]\['b'\]: a value must be one that JSON has; got a value of type set",
        ),
        ({"a": {1: 2}}, r"\['a'\]: a value must have only strings as keys"),
        ({1: 2}, "its members: a value must have only strings as keys"),
        ({"a": 1, "b\ud800": 1}, "its members: a string must not contain a lone surrogate"),
        (
            CIRCLE,
            r"\['a'\]\['a'\].*: a value must have only strings as keys, and nest at most 64 deep",
        ),
        (MappingProxyType({}), "a dict; got mappingproxy"),
        ({EXPIRY: "tomorrow"}, "microseconds since 1970; got 'tomorrow'"),
    ],
)
def test_the_log_names_the_value_of_a_state_that_is_not_json(value: Any, said: str) -> None:
    errors: list[BaseException] = []

    def call(path: str, handler: Callable[[], Any]) -> Any:
        try:
            return handler()
        except Exception as error:
            errors.append(error)
            raise

    assert refused(HEAD, "PATCH", {}, served(Returning(value), call)) == (500, "internal")
    assert re.search(f"on_patch.*{said}", str(errors[0]))
    assert errors[0].__traceback__ is not None


def test_a_state_that_is_too_large_is_refused() -> None:
    large = {"a": "x" * STATE_BYTES_MAX}
    assert refused(HEAD, "PATCH", {}, served(Returning(large))) == (413, "too-large")


def test_a_create_handler_may_not_return_unchanged() -> None:
    class Nothing(Author):
        path = "/nothing"

        def on_create(self, body: State, request: Request) -> Any:
            return UNCHANGED

    assert refused(None, "POST", {}, served(Nothing())) == (500, "internal")


def test_a_state_must_fit_the_schema() -> None:
    class Numbers(Returning):
        schema: ClassVar = {"properties": {"n": {"type": "integer"}}}

    assert refused(HEAD, "PATCH", {}, served(Numbers({"n": "1"}))) == (422, "refused-by-service")
    assert made(HEAD, "PATCH", {}, served(Numbers({"n": 1}))) == {"n": 1}


def test_a_handler_may_set_when_a_document_goes() -> None:
    assert made(HEAD, "PATCH", {}, served(Returning({EXPIRY: 7}))) == {EXPIRY: 7}


def test_members_of_the_store_are_not_stored_for_a_handler() -> None:
    after = {"documentVersion": 99, "documentSelfLink": "/x", "a": 1}
    assert made(HEAD, "PATCH", {}, served(Returning(after))) == {"a": 1}


def test_a_handler_neither_sees_nor_loses_the_lease_of_a_document() -> None:
    class Watching(Author):
        path = "/watching"

        def on_create(self, body: State, request: Request) -> State:
            assert LEASE not in body
            return {LEASE: "/core/leases/mine"}

        def on_patch(self, state: State, body: State, request: Request) -> State:
            assert LEASE not in state | body
            return {"b": 1}

    service, lease = served(Watching()), {LEASE: "/core/leases/x"}
    assert made(None, "POST", {"a": 1} | lease, service) == lease
    assert made(None, "POST", {"a": 1}, service) == {}
    assert made(row({"a": 1} | lease), "PATCH", {}, service) == {"b": 1} | lease
    assert made(row({"a": 1}), "PATCH", lease, service) == {"b": 1} | lease
    assert made(row({"a": 1} | lease), "PATCH", {LEASE: None}, service) == {"b": 1}


def test_a_lease_is_taken_where_nothing_else_changed() -> None:
    lease = {LEASE: "/core/leases/x"}
    assert made(HEAD, "PATCH", {"amount": 0} | lease, ACCOUNTS) == json.load(HEAD.state) | lease
    held = row(json.load(HEAD.state) | lease)
    assert asked(held, "PATCH", {"amount": 0} | lease, ACCOUNTS) == Unchanged(held)
    assert asked(held, "PATCH", {"amount": 0}, ACCOUNTS) == Unchanged(held)
    assert made(held, "PATCH", {"amount": 0, LEASE: None}, ACCOUNTS) == json.load(HEAD.state)


def test_merged_returns_unchanged_for_an_equal_state() -> None:
    assert merged({"a": 1, "b": {"c": 2}}, {"b": {"c": 2.0}}) is UNCHANGED
    assert merged({"a": 1}, {"a": None}) == {}


# Nodes without the class


@pytest.mark.parametrize("verb", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("media", ["handler", "merge", "json"])
def test_a_missing_service_refuses_every_update(verb: str, media: str) -> None:
    missing = MissingService(options_of(declaration_of(Accounts())))
    head = None if verb == "POST" else HEAD
    body = [] if media == "json" else {}
    answer = refused(head, verb, body, missing, media=media if verb == "PATCH" else "")
    assert answer == (503, "service-missing")


def test_the_test_of_the_page_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "services.md").read_text("utf-8")
    samples = page.split("```python\n")
    sample, test = samples[1], next(each for each in samples if each.startswith("# test_bank.py"))
    bank = ModuleType("bank")
    exec(sample.partition("```")[0], vars(bank))
    monkeypatch.setitem(sys.modules, "bank", bank)
    found: dict[str, Any] = {}
    exec(test.partition("```")[0], found)
    found["test_an_account_is_never_overdrawn"]()
