"""Elections and locks as their owner makes them: row by row, by the real service."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from docstore.documents.write_path.handle import New, Refused, handle
from docstore.model import json
from docstore.model.document import Row
from docstore.model.operation import ANY_TOMBSTONE, Operation
from docstore.model.service import Refusal
from docstore.ownership.by_store import (
    PAST_MAX,
    QUEUE_MAX,
    Candidate,
    Past,
    Turns,
    Vacant,
    campaigned,
    resigned,
)
from docstore.services.lock_queue import ELECTIONS, LOCKS, VALUE_BYTES_MAX, TurnService, state_of

SERVICES = {path: TurnService(path, "test") for path in (ELECTIONS, LOCKS)}


def lease(name: str) -> str:
    return f"/core/leases/{name}"


class Document:
    """One election (or lock) with all its rows."""

    def __init__(self, path: str = ELECTIONS, grace_ms: int = 0) -> None:
        self.link, self.service = f"{path}/billing", SERVICES[path]
        self.rows: list[Row] = []
        self.grace_ms = grace_ms
        self.put()

    def put(self) -> tuple[int, str]:
        state = json.dump(state_of(Turns(grace_ms=self.grace_ms)))
        return self.do(
            Operation(verb="POST", link=self.link, body=state, recreate_below=ANY_TOMBSTONE)
        )

    def do(self, operation: Operation) -> tuple[int, str]:
        head = self.rows[-1] if self.rows else None
        outcome = handle(head, operation, self.service, floor=-1, now_us=lambda: 0)
        if isinstance(outcome, Refused):
            return outcome.answer.status, outcome.answer.code
        if isinstance(outcome, New):
            row = Row(
                0, len(self.rows) + 1, 1, "n1", self.link, outcome.version, outcome.action, 1,
                outcome.deleted, outcome.signature, b"", b"", outcome.state,
            )  # fmt: skip
            self.rows.append(row)
            return 201, ""
        return 200, ""

    def ask(self, kind: str, **members: Any) -> tuple[int, str]:
        """Return 201 for a new row, 200 for none, or the status and code of a refusal."""
        body = json.dump({"kind": f"{kind}Request", **members})
        return self.do(Operation(verb="PATCH", link=self.link, body=body, media="handler"))

    def campaign(self, name: str, under: str = "") -> tuple[int, str]:
        return self.ask("Campaign", candidate=name, lease=lease(under or name))

    def resign(self, name: str, token: int | None = None) -> tuple[int, str]:
        return self.ask("Resign", candidate=name, token=self.token if token is None else token)

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.load(self.rows[-1].state)
        return state

    @property
    def token(self) -> int:
        token: int = self.state["token"]
        return token

    @property
    def holder(self) -> str:
        found = self.state["holder"]
        return found["candidate"] if found else ""

    @property
    def waiting(self) -> list[str]:
        return [each["candidate"] for each in self.state["queue"]]


def test_the_first_to_campaign_holds_and_its_token_is_the_version_of_its_row() -> None:
    election = Document()
    assert election.campaign("a") == (201, "")
    assert (election.holder, election.token) == ("a", election.rows[-1].version)
    assert election.campaign("b") == (201, "")
    assert (election.holder, election.token, election.waiting) == ("a", 1, ["b"])


def test_l05_a_second_campaign_keeps_one_place_and_the_token() -> None:
    election = Document()
    for name in "aabb":
        election.campaign(name)
    assert election.campaign("a") == (200, "")
    assert (election.holder, election.token, election.waiting) == ("a", 1, ["b"])


def test_l21_a_resignation_gives_the_turn_to_the_next_in_the_same_row() -> None:
    election = Document()
    for name in "abc":
        election.campaign(name)
    assert election.resign("a") == (201, "")
    assert (election.holder, election.waiting) == ("b", ["c"])
    assert election.token == election.rows[-1].version == 4


def test_l22_a_transfer_to_the_named_candidate_takes_one_row_and_ends_the_old_token() -> None:
    election = Document()
    for name in "abc":
        election.campaign(name)
    old = election.token
    assert election.ask("Transfer", candidate="a", token=old, to="c") == (201, "")
    assert (election.holder, election.waiting) == ("c", ["b"])
    assert election.ask("Proclaim", candidate="a", token=old, value=1) == (409, "not-holder")
    assert election.ask("Transfer", candidate="c", token=4, to="a") == (409, "not-queued")
    assert election.ask("Transfer", candidate="c", token=old, to="b") == (409, "other-token")


def test_only_the_holder_proclaims_a_value_that_is_shown() -> None:
    election = Document()
    election.campaign("a")
    assert election.ask("Proclaim", candidate="a", token=1, value={"url": "x"}) == (201, "")
    assert election.state["holder"]["value"] == {"url": "x"}
    assert election.ask("Proclaim", candidate="a", token=2, value=1) == (409, "other-token")
    assert election.ask("Proclaim", candidate="b", token=1, value=1) == (409, "not-holder")
    assert election.token == 1


def test_a_candidate_that_does_not_know_its_place_withdraws_by_its_lease() -> None:
    election = Document()
    for name in "abc":
        election.campaign(name)
    assert election.ask("Resign", candidate="b", lease=lease("b")) == (201, "")
    assert (election.holder, election.waiting) == ("a", ["c"])
    assert election.ask("Resign", candidate="a", lease=lease("a")) == (201, "")
    assert election.holder == "c"
    assert election.ask("Resign", candidate="a", lease=lease("a")) == (409, "not-holder")
    assert election.resign("c", token=1) == (409, "other-token")
    assert election.resign("a") == (409, "not-holder")


def test_the_same_name_under_another_lease_waits_for_its_predecessor() -> None:
    election = Document()
    election.campaign("a", under="first")
    assert election.campaign("a", under="second") == (201, "")
    assert (election.state["holder"]["lease"], election.waiting) == (lease("first"), ["a"])
    assert election.ask("Gone", lease=lease("first")) == (201, "")
    assert (election.state["holder"]["lease"], election.token) == (lease("second"), 3)


def test_an_ended_lease_removes_its_candidate_and_promotes_the_next() -> None:
    election = Document()
    for name in "abc":
        election.campaign(name)
    assert election.ask("Gone", lease=lease("b")) == (201, "")
    assert (election.holder, election.token, election.waiting) == ("a", 1, ["c"])
    assert election.ask("Gone", lease=lease("b")) == (200, "")
    assert election.ask("Gone", lease=lease("a")) == (201, "")
    assert (election.holder, election.state["vacant"]) == ("c", "")
    assert election.ask("Gone", lease=lease("c")) == (201, "")
    assert (election.holder, election.state["vacant"]) == ("", "expired")


def test_after_an_expiry_no_candidate_holds_until_promotion() -> None:
    election = Document(grace_ms=500)
    for name in "ab":
        election.campaign(name)
    election.ask("Gone", lease=lease("a"))
    election.campaign("c")
    assert (election.holder, election.state["vacant"]) == ("", "expired")
    assert election.waiting == ["b", "c"]
    assert election.ask("Promote") == (201, "")
    assert (election.holder, election.token, election.waiting) == ("b", 5, ["c"])
    assert election.ask("Promote") == (200, "")
    election.resign("b")
    assert election.holder == "c"  # A holder that resigns has stopped: no grace.


def test_a_full_queue_takes_only_candidates_that_are_in_it() -> None:
    queue = tuple(Candidate(f"c{n}", lease("x")) for n in range(QUEUE_MAX))
    full = Turns(Candidate("a", lease("x")), 1, queue)
    with pytest.raises(Refusal) as refused:
        campaigned(full, Candidate("late", lease("x")), 2)
    assert (refused.value.status, refused.value.code) == (409, "queue-full")
    assert campaigned(full, queue[-1], 2) is full


@pytest.mark.parametrize(
    "members",
    [
        {"kind": "CampaignRequest", "candidate": "", "lease": lease("a")},
        {"kind": "CampaignRequest", "candidate": "a", "lease": "/core/examples/a"},
        {"kind": "CampaignRequest", "candidate": "a", "lease": ""},
        {"kind": "CampaignRequest", "candidate": "a", "lease": lease("a"), "more": 1},
        {"kind": "CampaignRequest", "candidate": "a", "lease": lease("a"),
         "value": "x" * VALUE_BYTES_MAX},
        {"kind": "AcquireRequest", "candidate": "a", "lease": lease("a")},
        {"kind": "ResignRequest", "candidate": "a"},
        {"kind": "ResignRequest", "candidate": "a", "token": 1, "lease": lease("a")},
        {"kind": "ResignRequest", "candidate": "a", "token": 0},
        {"kind": "TransferRequest", "candidate": "a", "token": 1},
        {"kind": "ProclaimRequest", "candidate": "a", "token": True, "value": 1},
        {"candidate": "a"},
    ],
)  # fmt: skip
def test_a_request_of_the_wrong_shape_changes_nothing(members: dict[str, Any]) -> None:
    election = Document()
    assert (
        election.do(
            Operation(verb="PATCH", link=election.link, body=json.dump(members), media="handler")
        )[0]
        == 400
    )
    assert len(election.rows) == 1


def test_a_lock_is_acquired_and_released() -> None:
    lock = Document(LOCKS)
    assert lock.ask("Acquire", candidate="a", lease=lease("a")) == (201, "")
    assert lock.ask("Campaign", candidate="b", lease=lease("b"))[0] == 400
    assert lock.ask("Release", candidate="a", token=1) == (201, "")
    assert (lock.holder, lock.state["vacant"]) == ("", Vacant.RESIGNED)


NAMES = st.sampled_from("abcd")
KINDS = ["campaign"] * 4 + ["resign", "withdraw", "transfer", "gone", "promote", "recreate"]
STEPS = st.tuples(st.sampled_from(KINDS), NAMES)


class Model:
    """The holder and the queue by a plain model, and a check of every row."""

    def __init__(self, grace_ms: int) -> None:
        self.document = Document(grace_ms=grace_ms)
        self.grace_ms = grace_ms
        self.order: list[str] = []
        """All live candidates, the holder first unless there is none."""
        self.is_held = self.is_in_grace = False
        self.newest_token = 0

    def do(self, step: str, name: str) -> None:
        held = self.order[0] if self.is_held else ""
        match step:
            case "campaign":
                self.document.campaign(name)
                if name not in self.order:
                    self.order.append(name)
            case "resign":
                self.document.resign(name)
                if name == held:
                    self._leave(name)
            case "withdraw":
                self.document.ask("Resign", candidate=name, lease=lease(name))
                self._leave(name)
            case "transfer":
                self.document.ask("Transfer", candidate=held or "?", token=self.newest_token or 1,
                                  to=name)  # fmt: skip
                if held and name in self.order[1:]:
                    self.order.remove(name)
                    self.order[0] = name
            case "gone":
                self.document.ask("Gone", lease=lease(name))
                self._leave(name)
                if name == held and self.grace_ms:
                    self.is_in_grace = True
            case "promote":
                self.document.ask("Promote")
                self.is_in_grace = self.is_in_grace and not self.order
            case "recreate":
                self.document.do(Operation(verb="DELETE", link=self.document.link))
                self.document.put()
                self.order, self.is_held, self.is_in_grace = [], False, False
        self.is_held = bool(self.order) and not self.is_in_grace

    def _leave(self, name: str) -> None:
        if name in self.order:
            if self.order.index(name) == 0 and self.is_held:
                self.is_held = False
            self.order.remove(name)

    def check(self) -> None:
        document = self.document
        assert [row.version for row in document.rows] == list(range(len(document.rows)))
        shown = [document.holder] if document.holder else []
        assert [*shown, *document.waiting] == self.order  # SI8: no candidate is lost or moved.
        assert bool(document.holder) == self.is_held


@given(st.lists(STEPS, min_size=10, max_size=60), st.sampled_from([0, 500]))
def test_l09_x3_each_version_has_one_holder_and_tokens_grow(
    script: list[tuple[str, str]], grace_ms: int
) -> None:
    model = Model(grace_ms)
    document = model.document
    for step, name in script:
        before = len(document.rows)
        held = document.holder
        model.do(step, name)
        model.check()
        for row in document.rows[before:]:
            state = json.load(row.state)
            if state["holder"] and not row.deleted and state["token"] != model.newest_token:
                assert state["token"] == row.version > model.newest_token
                model.newest_token = state["token"]
        if document.holder != held and document.holder:
            assert document.token == document.rows[-1].version


# Requests that come late


def test_a_late_campaign_makes_no_holder() -> None:
    election = Document()
    campaign = {"candidate": "a", "lease": lease("a"), "number": 1}
    assert election.ask("Campaign", **campaign) == (201, "")
    assert election.ask("Campaign", **campaign) == (200, "")  # Its answer was lost.
    assert election.ask("Resign", candidate="a", token=1, number=2) == (201, "")
    assert election.ask("Campaign", **campaign) == (409, "late")
    assert election.ask("Resign", candidate="a", lease=lease("a"), number=2) == (409, "not-holder")
    assert election.ask("Campaign", **campaign | {"number": 3}) == (201, "")
    assert election.ask("Resign", candidate="a", lease=lease("a"), number=2) == (409, "late")
    assert election.holder == "a"
    election.resign("a")  # By a client that sends no numbers.
    assert election.ask("Campaign", **campaign | {"number": 3}) == (409, "late")


def test_a_late_value_is_refused() -> None:
    election = Document()
    election.ask("Campaign", candidate="a", lease=lease("a"), number=1)
    for number, value, expected in ((2, "x", 201), (2, "x", 200), (4, "z", 201), (3, "y", 409)):
        asked = {"candidate": "a", "token": 1, "value": value, "number": number}
        assert election.ask("Proclaim", **asked)[0] == expected
    assert election.state["holder"]["value"] == "z"


def test_the_past_of_a_candidate_ends_with_its_lease() -> None:
    election = Document()
    election.ask("Campaign", candidate="a", lease=lease("a"), number=7)
    election.ask("Resign", candidate="a", token=1, number=8)
    assert election.state["past"] == [["a", lease("a"), 8]]
    assert election.ask("Gone", lease=lease("a")) == (201, "")
    assert "past" not in election.state
    assert election.ask("Gone", lease=lease("a")) == (200, "")


def test_the_oldest_past_candidate_is_forgotten() -> None:
    past = tuple(Past("c", lease(str(n)), 1) for n in range(PAST_MAX))
    turns = Turns(Candidate("a", lease("a"), None, 1), 1, past=past)
    after = resigned(turns, "a", 1, number=2, version=2)
    assert after.past == (*past[1:], Past("a", lease("a"), 2))


NUMBERED = st.tuples(st.sampled_from(["Campaign", "Campaign", "Resign", "Withdraw", "Transfer",
                                      "Proclaim"]), NAMES)  # fmt: skip


LATE = st.lists(st.integers(0, 30), max_size=3)


@example(
    [(("Campaign", "a"), True, []), (("Resign", "a"), False, []), (("Proclaim", "a"), True, [1])]
)
@example(
    [(("Campaign", "a"), True, []), (("Withdraw", "a"), False, []), (("Campaign", "a"), True, [1])]
)
@given(st.lists(st.tuples(NUMBERED, st.booleans(), LATE), max_size=30))
def test_a_request_older_than_an_executed_one_of_its_sender_changes_nothing(
    script: list[tuple[tuple[str, str], bool, list[int]]],
) -> None:
    election = Document()
    sent: list[tuple[str, str, dict[str, Any]]] = []
    newest = dict.fromkeys("abcd", -1)
    for (kind, name), is_prompt, late in script:
        under = {"lease": lease(name)}
        token = {"token": election.token or 1}
        members = {
            "Campaign": under, "Withdraw": under, "Resign": token,
            "Transfer": token | {"to": "a"}, "Proclaim": token | {"value": len(sent)},
        }[kind]  # fmt: skip
        asked = {"candidate": name, "number": len(sent) + 1, **members}
        sent.append((kind.replace("Withdraw", "Resign"), name, asked))
        if is_prompt and election.ask(sent[-1][0], **asked)[0] < 300:
            newest[name] = len(sent) - 1
        for each in (index for index in late if index < len(sent)):
            again, sender, asked = sent[each]
            before = len(election.rows)
            status, _ = election.ask(again, **asked)
            if each <= newest[sender]:
                assert len(election.rows) == before, (sent, each)
            elif status < 300:
                newest[sender] = each
