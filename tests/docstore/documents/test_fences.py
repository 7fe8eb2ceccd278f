"""Fences and terms: an earlier owner changes nothing (F1 to F3)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.documents.events import Requested
from docstore.documents.write_path.handle import New, Refused, handle
from docstore.errors import BadRequest
from docstore.model.document import Row
from docstore.model.fences import SCOPES_MAX, Fence, fences_of
from docstore.model.identity import OperationIdentity, unpack_identity
from docstore.model.operation import ANY_TOMBSTONE, Operation
from docstore.model.service import Refusal, ServiceOptions
from docstore.services.declared import DeclaredService, options_of
from tests.docstore.documents.trio import Trio

LINK = "/prices/a"
PLAIN = DeclaredService(ServiceOptions(path="/prices", kind="prices"))


class History:
    """The rows of one document, made as its owner makes them."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def write(self, verb: str, *fence: Any, by: DeclaredService = PLAIN) -> tuple[int, str]:
        """Try an update; return status and code."""
        head = self.rows[-1] if self.rows else None
        operation = Operation(
            verb=verb,
            link=LINK,
            body=b'{"a":1}',
            recreate_below=ANY_TOMBSTONE,
            creates=True,
            fence=fence,
        )
        outcome = handle(head, operation, by, floor=-1, now_us=lambda: 0)
        if not isinstance(outcome, New):
            assert isinstance(outcome, Refused)
            return outcome.answer.status, outcome.answer.code
        identity = OperationIdentity("n1", 1, len(self.rows), 0, fences=outcome.fences)
        row = Row(
            0, len(self.rows) + 1, 1, "n1", LINK, outcome.version, outcome.action, 1,
            outcome.deleted, outcome.signature, identity.pack(), b"", outcome.state,
        )  # fmt: skip
        self.rows.append(row)
        return 200, ""

    @property
    def fences(self) -> dict[str, int]:
        """The fences of the newest row."""
        return dict(fences_of(self.rows[-1] if self.rows else None))


def test_a_smaller_token_is_refused_and_others_are_remembered() -> None:
    document = History()
    assert document.write("PUT", "locks/a", 7) == (200, "")
    assert document.write("PUT", "locks/a", 7) == (200, "")
    assert document.write("PUT", "locks/a", 6) == (409, "fenced")
    assert document.fences == {"locks/a": 7}
    assert document.write("PUT", "locks/a", 9) == (200, "")
    assert document.write("PUT", "locks/b", 1) == (200, "")
    assert document.fences == {"locks/a": 9, "locks/b": 1}


@pytest.mark.parametrize("verb", ["PUT", "DELETE"])
def test_unfenced_rows_and_tombstones_carry_fences_on(verb: str) -> None:
    document = History()
    document.write("PUT", "locks/a", 7)
    assert document.write(verb) == (200, "")
    assert document.fences == {"locks/a": 7}
    assert document.write("PUT", "locks/a", 6) == (409, "fenced")
    assert document.write("POST" if verb == "DELETE" else "PUT", "locks/a", 8) == (200, "")


def test_a_ninth_scope_is_refused_and_the_eight_stay_usable() -> None:
    document = History()
    for number in range(SCOPES_MAX):
        assert document.write("PUT", f"locks/{number}", 1) == (200, "")
    assert document.write("PUT", "locks/one-too-many", 1) == (409, "too-many-fences")
    assert document.write("PUT", "locks/3", 2) == (200, "")
    assert len(document.fences) == SCOPES_MAX


def test_a_fence_is_checked_first() -> None:
    document = History()
    document.write("PUT", "locks/a", 7)
    stale = Operation(
        verb="POST", link=LINK, body=b"{}", fence=("locks/a", 6)
    )  # It exists already, too.
    outcome = handle(document.rows[-1], stale, PLAIN, floor=-1, now_us=lambda: 0)
    assert isinstance(outcome, Refused)
    assert outcome.answer.code == "fenced"
    assert outcome.answer.row == document.rows[-1]  # It shows the remembered fences.


def test_a_factory_may_demand_a_fence() -> None:
    service = DeclaredService(options_of({"path": "/prices", "requiresFence": True}))
    document = History()
    assert document.write("PUT", by=service) == (428, "fence-required")
    assert document.write("PUT", "locks/a", 1, by=service) == (200, "")
    assert document.write("DELETE", by=service) == (428, "fence-required")


def test_weaker_levels_cannot_demand_a_fence() -> None:
    weak = ["PERSISTENCE", "REPLICATION", "OWNER_SELECTION"]
    with pytest.raises((Refusal, BadRequest)):
        options_of({"path": "/prices", "requiresFence": True, "options": weak})


writes = st.tuples(
    st.sampled_from(["PUT", "POST", "DELETE"]),
    st.one_of(st.just(()), st.tuples(st.sampled_from("abc"), st.integers(0, 9))),
)


@given(st.lists(writes, max_size=40))
def test_i18_along_a_document_tokens_of_a_scope_never_fall(script: list[tuple[str, Any]]) -> None:
    document, accepted = History(), dict[str, int]()
    for verb, fence in script:
        before = len(document.rows)
        status, code = document.write(verb, *fence)
        if fence and fence[1] < accepted.get(fence[0], 0):
            assert (status, code) == (409, "fenced")
        if len(document.rows) > before and fence:
            accepted[fence[0]] = max(fence[1], accepted.get(fence[0], 0))
        assert document.fences == accepted


@given(
    st.lists(st.tuples(st.text(min_size=1), st.integers(0, 1 << 60)), max_size=SCOPES_MAX),
    st.booleans(),
    st.sampled_from([(), ("job", 1, 2)]),
)
def test_a_packed_identity_unpacks_to_itself(
    fences: list[tuple[str, int]], created: bool, writer: tuple[Any, ...]
) -> None:
    identity = OperationIdentity("n1", 1, 2, 3, "key", 5, writer, created, fences)
    packed = identity.pack()
    back = unpack_identity(packed)
    assert tuple(back.writer) == writer
    assert back.created == created
    row = Row(0, 1, 1, "n1", LINK, 0, "PUT", 1, False, b"", packed, b"", b"{}")
    assert fences_of(row) == tuple(Fence(*each) for each in fences)


def test_an_update_is_executed_only_in_the_term_that_it_names() -> None:
    trio = Trio()
    assert trio.run_until(trio.owner, 10)
    owner = trio.owner()
    term = trio.replicas[owner].core.logs[0].term
    assert term is not None
    epoch = term.ballot[0]
    for number, only_epoch in enumerate((epoch, epoch + 1, 0)):
        operation = Operation(
            verb="PUT", link="/t/a", body=b"{}", creates=True, only_epoch=only_epoch
        )
        trio.feed(owner, Requested(number, operation, trio.now + 5))
    assert trio.run_until(lambda: len(trio.answers) == 3, 5)
    answers = {each.request: each.outcome for _, each in trio.answers}
    assert [(answers[n].status, answers[n].code) for n in range(3)] == [
        (201, ""), (412, "other-reign"), (200, ""),
    ]  # fmt: skip
    assert answers[2].row is not None
    assert answers[2].row.version == 1
