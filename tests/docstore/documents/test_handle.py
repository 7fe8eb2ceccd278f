"""Effects of updates on a document: preconditions, creation, deletion, versions, refusals."""

from typing import Any

import pytest

from docstore.documents.write_path.handle import (
    DELETED_SIGNATURE,
    STATE_BYTES_MAX,
    New,
    Refused,
    Unchanged,
    handle,
)
from docstore.model import json
from docstore.model.document import EXPIRY, Row
from docstore.model.operation import ANY_TOMBSTONE, Conditions, Operation
from docstore.model.service import Refusal, ServiceOptions, State
from docstore.services.declared import DeclaredService
from docstore.services.registry import Registry

LINK = "/notes/a"


def row(version: int = 3, state: bytes = b'{"a":1,"b":2}', *, deleted: bool = False) -> Row:
    return Row(
        0, 9, 5, "n1", LINK, version, "DELETE" if deleted else "PUT", 1, deleted,
        json.signature(json.parse(state)), b"", b"", state,
    )  # fmt: skip


def service(**options: Any) -> DeclaredService:
    return DeclaredService(ServiceOptions(path="/notes", kind="notes", **options))


PLAIN = service()


def update(verb: str, body: Any = None, **members: Any) -> Operation:
    raw = b"" if body is None else body if isinstance(body, bytes) else json.dump(body)
    return Operation(verb=verb, link=LINK, body=raw, **members)


def refusal(head: Row | None, operation: Operation, by: Any = PLAIN) -> tuple[int, str]:
    outcome = handle(head, operation, by, floor=-1, now_us=lambda: 0)
    assert isinstance(outcome, Refused)
    assert not outcome.answer.unknown
    return outcome.answer.status, outcome.answer.code


def new(head: Row | None, operation: Operation, by: Any = PLAIN, floor: int = -1) -> New:
    outcome = handle(head, operation, by, floor=floor, now_us=lambda: 0)
    assert isinstance(outcome, New), outcome
    return outcome


TOMBSTONE = row(4, deleted=True)


# Creation and deletion


def test_the_first_version_is_0_or_follows_the_purged_ones() -> None:
    assert new(None, update("POST", {"a": 1})).version == 0
    assert new(None, update("POST", {"a": 1}), floor=6).version == 7
    assert new(None, update("PUT", {"a": 1}, creates=True)).version == 0


def test_put_creates_only_where_it_may() -> None:
    assert refusal(None, update("PUT", {})) == (404, "not-found")
    assert refusal(TOMBSTONE, update("PUT", {})) == (404, "not-found")
    assert new(TOMBSTONE, update("PUT", {}, creates=True)).version == 5


def test_post_on_a_live_document_is_refused_with_the_live_one() -> None:
    outcome = handle(row(), update("POST", {}), PLAIN, floor=-1, now_us=lambda: 0)
    assert isinstance(outcome, Refused)
    assert (outcome.answer.status, outcome.answer.code) == (409, "already-exists")
    assert outcome.answer.row == row()


@pytest.mark.parametrize(
    ("below", "version"), [(None, None), (0, None), (4, None), (5, 5), (99, 5), (ANY_TOMBSTONE, 5)]
)
def test_post_on_a_tombstone_needs_recreate_below(below: int | None, version: int | None) -> None:
    operation = update("POST", {}, recreate_below=below)
    if version is None:
        assert refusal(TOMBSTONE, operation) == (409, "marked-deleted")
    else:
        assert new(TOMBSTONE, operation).version == version


def test_idempotent_post_becomes_put() -> None:
    made = new(row(), update("POST", {"x": 1}), service(idempotent_post=True))
    assert (made.version, made.action, made.state) == (4, "PUT", b'{"x":1}')
    first = new(None, update("POST", {"x": 1}), service(idempotent_post=True))
    assert (first.version, first.action) == (0, "POST")


def test_a_tombstone_is_the_next_version_with_the_last_state() -> None:
    made = new(row(), update("DELETE"))
    assert made == New(row().state, 4, "DELETE", True, DELETED_SIGNATURE)


@pytest.mark.parametrize("head", [None, TOMBSTONE])
@pytest.mark.parametrize("verb", ["PATCH", "DELETE"])
def test_an_absent_document_is_404_and_shows_its_tombstone(head: Row | None, verb: str) -> None:
    outcome = handle(head, update(verb, {}), PLAIN, floor=-1, now_us=lambda: 0)
    assert isinstance(outcome, Refused)
    assert (outcome.answer.status, outcome.answer.row) == (404, head)


# Bytes and signatures


def test_bytes_are_kept_as_they_came_and_not_parsed_without_need() -> None:
    made = new(row(), update("PUT", b"not even JSON", signature=b"s" * 16))
    assert (made.state, made.signature) == (b"not even JSON", b"s" * 16)


def test_a_missing_signature_is_computed() -> None:
    spaced = new(row(), update("PUT", b'{ "b": 2, "a": 1.0 }'))
    assert spaced.state == b'{ "b": 2, "a": 1.0 }'
    assert spaced.signature == json.signature({"a": 1, "b": 2})


# Preconditions


@pytest.mark.parametrize(
    ("conditions", "status"),
    [
        (Conditions(match="*"), 200),
        (Conditions(match=[[5, 3]]), 200),
        (Conditions(match=[[1, 1], [5, 3]]), 200),
        (Conditions(match=[[5, 2]]), 412),
        (Conditions(match=[[4, 3]]), 412),
        (Conditions(match=[]), 412),
        (Conditions(none_match="*"), 412),
        (Conditions(none_match=[[5, 3]]), 412),
        (Conditions(none_match=[[5, 2]]), 200),
        (Conditions(version=3), 200),
        (Conditions(version=2), 409),
        (Conditions(version=4), 409),
        (Conditions(match=[[5, 2]], version=2), 412),
    ],
)
@pytest.mark.parametrize("verb", ["PUT", "PATCH", "DELETE"])
def test_preconditions_on_a_live_document(verb: str, conditions: Conditions, status: int) -> None:
    operation = update(verb, {"x": 1}, conditions=conditions, media="merge")
    if status == 200:
        assert new(row(), operation).version == 4
    else:
        assert refusal(row(), operation)[0] == status


@pytest.mark.parametrize("head", [None, TOMBSTONE])
def test_preconditions_on_an_absent_document(head: Row | None) -> None:
    for match in ("*", [[5, 4]]):
        operation = update("PUT", {}, creates=True, conditions=Conditions(match=match))
        assert refusal(head, operation) == (412, "precondition-failed")
    absent = Conditions(none_match="*")
    assert new(head, update("PUT", {}, creates=True, conditions=absent)).action == "PUT"


NAMES_A_VERSION = [Conditions(match=[[5, 3]]), Conditions(version=3)]
NAMES_NO_VERSION = [None, Conditions(match="*"), Conditions(none_match=[[5, 2]])]
STRICT = service(strict_updates=True)


@pytest.mark.parametrize("verb", ["PUT", "PATCH", "DELETE"])
def test_strict_updates_must_name_the_version_that_they_read(verb: str) -> None:
    for conditions in NAMES_NO_VERSION:
        operation = update(verb, {"x": 1}, conditions=conditions, media="merge")
        assert refusal(row(), operation, STRICT) == (428, "precondition-required")
    for conditions in NAMES_A_VERSION:
        operation = update(verb, {"x": 1}, conditions=conditions, media="merge")
        assert new(row(), operation, STRICT).version == 4


@pytest.mark.parametrize("head", [None, TOMBSTONE])
def test_strict_updates_of_absent_documents_need_no_version(
    head: Row | None,
) -> None:
    for conditions in (None, Conditions(none_match="*")):
        made = new(head, update("PUT", {}, creates=True, conditions=conditions), STRICT)
        assert made.action == "PUT"
    assert new(head, update("POST", {}, recreate_below=ANY_TOMBSTONE), STRICT).action == "POST"
    assert refusal(head, update("DELETE"), STRICT) == (404, "not-found")
    exists = update("PUT", {}, creates=True, conditions=Conditions(none_match="*"))
    assert refusal(row(), exists, STRICT) == (412, "precondition-failed")


def test_a_strict_post_that_becomes_a_put_must_name_the_version_that_it_read() -> None:
    again = service(strict_updates=True, idempotent_post=True)
    assert refusal(row(), update("POST", {}), again) == (428, "precondition-required")
    assert new(row(), update("POST", {}, conditions=Conditions(version=3)), again).version == 4
    assert refusal(row(), update("POST", {}), STRICT) == (409, "already-exists")


# Patches


def test_patches_by_their_media() -> None:
    merged = new(row(), update("PATCH", {"a": None, "c": 3}, media="merge"))
    assert (merged.state, merged.version, merged.action) == (b'{"b":2,"c":3}', 4, "PATCH")
    assert new(row(), update("PATCH", {"a": None, "c": 3}, media="handler")) == merged
    listed = update("PATCH", [{"op": "remove", "path": "/a"}], media="json")
    assert new(row(), listed).state == b'{"b":2}'


def test_a_patch_cannot_set_members_of_the_store() -> None:
    sneaky = [{"op": "add", "path": "/documentVersion", "value": 77}]
    assert new(row(), update("PATCH", sneaky, media="json")).state == row().state


@pytest.mark.parametrize(
    ("body", "media", "status"),
    [
        ([{"op": "test", "path": "/a", "value": 2}], "json", 409),
        ([{"op": "remove", "path": "/x"}], "json", 409),
        ([{"op": "replace", "path": "", "value": []}], "json", 400),
        ({}, "json", 400),
        ([], "merge", 400),
        ("x", "handler", 400),
        (b"{", "merge", 400),
        ({"a": "x" * STATE_BYTES_MAX}, "merge", 413),
    ],
)
def test_invalid_patches_are_refused(body: Any, media: str, status: int) -> None:
    assert refusal(row(), update("PATCH", body, media=media))[0] == status


def test_a_patch_without_a_change_makes_no_version() -> None:
    head = row(state=b'{"name":"x"}')
    operation = update("PATCH", {"name": "x"}, media="handler")
    example = Registry().service_at("/core/examples")
    assert example is not None
    assert handle(head, operation, example, floor=-1, now_us=lambda: 0) == Unchanged(head)


# Options and checks of authors


def test_immutable_documents_are_created_and_deleted_but_not_changed() -> None:
    stone = service(immutable=True)
    for verb in ("PUT", "PATCH"):
        assert refusal(row(), update(verb, {}, creates=True), stone) == (409, "immutable")
    twice = service(immutable=True, idempotent_post=True)
    assert refusal(row(), update("POST", {}), twice) == (409, "immutable")
    assert new(None, update("PUT", {}, creates=True), stone).version == 0
    assert new(row(), update("DELETE"), stone).deleted


def test_a_schema_is_applied_to_every_state_whatever_made_it() -> None:
    strict = service(schema={"required": ["n"], "properties": {"n": {"type": "integer"}}})
    for operation in (
        update("POST", {}),
        update("PUT", {"n": "1"}, creates=True),
        update("PUT", {}, creates=True, signature=b"s" * 16),
    ):
        assert refusal(None, operation, strict) == (422, "refused-by-service")
    assert new(None, update("POST", {"n": 1}), strict).version == 0
    assert refusal(row(), update("PATCH", {"a": 1}, media="merge"), strict)[0] == 422


@pytest.mark.parametrize("verb", ["POST", "PUT"])
def test_the_owner_adds_the_factorys_expiry_to_a_document_without_one(verb: str) -> None:
    brief = service(expires_after_s=7)
    sent = update(verb, b'{ "a": 1 }', creates=True, signature=b"s" * 16)
    outcome = handle(None, sent, brief, floor=-1, now_us=lambda: 1_000_000)
    assert isinstance(outcome, New)
    state = {"a": 1, EXPIRY: 8_000_000}
    assert json.load(outcome.state) == state
    assert outcome.signature == json.signature(state)
    assert sent.body == b'{ "a": 1 }'
    named = update(verb, b'{ "documentExpirationTimeMicros": 0 }', creates=True)
    assert new(None, named, brief).state == named.body
    changed = new(row(), update("PATCH", {"c": 3}, media="merge"), brief)
    assert EXPIRY not in json.load(changed.state)


def test_a_schema_sees_the_expiry_that_the_factory_gives() -> None:
    checked = service(expires_after_s=7, schema={"required": [EXPIRY]})
    assert new(None, update("POST", {}), checked).version == 0


class Clumsy:
    """A service whose author made mistakes."""

    options = ServiceOptions(path="/notes", kind="notes")
    checks = True

    def check(self, state: State) -> None:
        if "busy" in state:
            raise Refusal("not now", status=409)
        if "bad" in state:
            raise ZeroDivisionError

    def patch(self, state: State, change: State) -> Any:
        return {"strange": object()} if "strange" in change else ["no object"]


def test_an_author_chooses_the_status_and_a_mistake_is_only_a_refusal() -> None:
    assert refusal(row(), update("PUT", {"busy": 1}), Clumsy()) == (409, "refused-by-service")
    assert refusal(row(), update("PUT", {"bad": 1}), Clumsy()) == (500, "internal")
    assert refusal(row(), update("PATCH", {"strange": 1}), Clumsy())[0] == 500
    assert refusal(row(), update("PATCH", {}), Clumsy())[0] == 400


def test_other_verbs_are_not_for_documents() -> None:
    assert refusal(row(), update("BURN"))[0] == 405
