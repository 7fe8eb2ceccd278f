"""Turns of elections and locks at the owners' machines: answers to candidates, promotions."""

from typing import Any

import pytest

from docstore.machines.effects import Give
from docstore.machines.events import Noticed
from docstore.model import json
from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from docstore.ownership.by_store import Candidate, Turns
from docstore.services.leases import LeaseState
from docstore.services.lock_queue import ELECTIONS, LOCKS, state_of, turns_of
from docstore.sessions.events import Asked
from docstore.wire.sessions_messages import Reply
from tests.docstore.sessions.group import Group

LINK = f"{ELECTIONS}/billing"


def lease(name: str) -> str:
    return f"/core/leases/{name}"


class Elections(Group):
    """A group with one election in it."""

    def __init__(self, *, grace_ms: int = 0, link: str = LINK, **times: Any) -> None:
        super().__init__(**times)
        self.link = link
        self.apply(
            Operation(
                verb="PUT",
                link=link,
                body=json.dump(state_of(Turns(grace_ms=grace_ms))),
                creates=True,
            )
        )
        self.settle()

    def campaign(self, names: str) -> None:
        kind = "CampaignRequest" if self.link == LINK else "AcquireRequest"
        for name in names:
            self.patch(self.link, {"kind": kind, "candidate": name, "lease": lease(name)})

    def resign(self) -> None:
        turns = self.turns
        assert turns.holder is not None
        self.patch(self.link, {"kind": "ResignRequest", "candidate": turns.holder.name,
                               "token": turns.token})  # fmt: skip

    def gone(self, name: str) -> None:
        self.patch(self.link, {"kind": "GoneRequest", "lease": lease(name)})

    def turn(self, name: str, *, at: str = "", timeout_s: float = 20.0, version: int = 0) -> int:
        asked = (name, lease(name), 1000, version)
        return self.call(self.link, "turn", asked, at=at, timeout_s=timeout_s)

    @property
    def turns(self) -> Turns:
        state = self.state(self.link)
        assert state is not None
        return turns_of(state)

    @property
    def holder(self) -> str:
        return self.turns.holder.name if self.turns.holder else ""


def shown(reply: Reply) -> tuple[int, str]:
    """Return the status and the holder."""
    holder = turns_of(json.load(Row(*reply.result).state)).holder
    return reply.status, holder.name if holder else ""


def test_l21_one_of_fifty_waiting_candidates_is_answered() -> None:
    group = Elections()
    names = [chr(0x100 + number) for number in range(50)]
    group.campaign("x" + "".join(names))
    waiting = [group.turn(name, at="abc"[number % 3]) for number, name in enumerate(names)]
    assert not group.replies
    rows = len(group.decided)
    group.resign()
    assert len(group.decided) == rows + 1
    assert list(group.replies) == [waiting[0]]
    assert shown(group.reply(waiting[0])) == (200, names[0])
    group.resign()
    assert list(group.replies) == waiting[:2]


@pytest.mark.parametrize("link", [LINK, f"{LOCKS}/billing"])
def test_a_candidate_that_holds_is_answered_at_once(link: str) -> None:
    group = Elections(link=link)
    group.campaign("x")
    assert shown(group.reply(group.turn("x", at="b"))) == (200, "x")


def test_a_waiting_candidate_gets_the_holder_before_its_deadline() -> None:
    group = Elections()
    group.campaign("xy")
    request = group.turn("y", timeout_s=3.0)
    group.run(1.9)
    assert not group.replies
    group.run(0.2)
    assert shown(group.reply(request)) == (202, "x")


def test_a_removed_candidate_and_one_of_no_election_are_answered() -> None:
    group = Elections()
    group.campaign("xyz")
    request = group.turn("y")
    group.gone("y")
    assert shown(group.reply(request)) == (200, "x")
    request = group.turn("z")
    row = group.documents[LINK]
    group.write(LINK, row.state, row.version + 1, deleted=True)
    group.settle()
    assert group.reply(request).result == []
    assert group.reply(group.turn("nobody")).result == []


def test_a_candidate_waits_on_at_the_next_owner() -> None:
    group = Elections()
    group.campaign("xy")
    request = group.turn("y", at="c")
    group.govern("b")
    group.run(0.2)
    assert not group.replies
    group.resign()
    assert shown(group.reply(request)) == (200, "y")


def test_a_candidate_waits_on_in_a_new_term_of_the_same_owner() -> None:
    """Pinned: the new term that a change of members begins ended the wait."""
    group = Elections()
    group.campaign("xy")
    request = group.turn("y", at="b")
    group.govern("a")
    group.run(1.2)  # The node drops the table of the old term.
    assert not group.replies
    group.resign()
    assert shown(group.reply(request)) == (200, "y")


def test_an_owner_that_has_not_read_the_document_gives_no_turn() -> None:
    """Pinned: when its time was over the answer was that there is no such document."""
    group = Elections()
    group.campaign("xy")
    group.govern("a")
    group.run(1.2)
    held_back = Answer(503, "no-quorum", unknown=True)
    group.answers = lambda node, operation: held_back if operation.verb == "GET" else None
    request = group.turn("y", timeout_s=2.0)
    group.run(2.1)
    assert group.reply(request).result is None


def test_a_deposed_owner_answers_no_turn() -> None:
    """Wait, as the table has a row that another owner may have replaced."""
    group = Elections()
    group.campaign("xy")
    group.govern("b", unnoticed_by="a")
    request = group.turn("x", at="a")
    assert request not in group.replies
    group.notice_owner("a")
    group.run(0.2)
    assert shown(group.reply(request)) == (200, "x")


def test_a_version_before_a_campaign_does_not_end_its_wait() -> None:
    """Ignore late notices of older rows, which a quick candidate may overtake."""
    group = Elections()
    group.campaign("xy")
    before = group.documents[LINK]
    machine, now = group.machines["a"], group.clock("a")
    asked = ("z", lease("z"), 1000, before.version + 2)
    machine.step(Asked(7, LINK, "turn", asked, now + 20.0), now)  # The read is not asked for yet.
    state = state_of(group.turns._replace(queue=(*group.turns.queue, Candidate("w", lease("w")))))
    older = before._replace(version=before.version + 1, state=json.dump(state))
    assert not [each for each in machine.step(Noticed(older), now) if isinstance(each, Give)]
    newer = older._replace(version=before.version + 2)
    [given] = [each for each in machine.step(Noticed(newer), now) if isinstance(each, Give)]
    assert shown(given.outcome) == (200, "x")


# The grace


def test_after_an_expiry_the_next_is_promoted_when_the_grace_is_over() -> None:
    group = Elections(grace_ms=2_000)
    group.campaign("xy")
    request = group.turn("y")
    group.gone("x")
    group.run(1.9)
    assert (group.holder, request in group.replies) == ("", False)
    group.run(0.2)
    assert group.holder == "y"
    assert shown(group.reply(request)) == (200, "y")


def test_a_campaign_after_the_grace_holds_at_once() -> None:
    group = Elections(grace_ms=2_000)
    group.campaign("x")
    group.gone("x")
    group.run(2.5)
    assert not [operation for _, operation in group.asked if operation.verb == "PATCH"]
    group.campaign("y")
    assert group.holder == "y"


def test_each_expiry_has_its_own_grace() -> None:
    group = Elections(grace_ms=2_000)
    group.campaign("xyz")
    group.gone("x")
    group.run(2.1)
    assert group.holder == "y"
    group.gone("y")
    group.run(1.9)
    assert group.holder == ""
    group.run(0.2)
    assert group.holder == "z"
    group.gone("z")
    group.run(1.5)
    # A machine may get only the newer one of two rows.
    unseen = state_of(group.turns._replace(token=group.turns.token + 2))
    group.write(LINK, json.dump(unseen), group.documents[LINK].version + 4)
    group.campaign("x")
    group.run(1.9)
    assert group.holder == ""
    group.run(0.2)
    assert group.holder == "x"


def test_a_new_owner_measures_the_whole_grace_again() -> None:
    group = Elections(grace_ms=2_000)
    group.campaign("xy")
    group.gone("x")
    group.run(1.5)
    group.govern("b")
    group.run(1.9)
    assert group.holder == ""
    group.run(0.4)
    assert group.holder == "y"


def test_a_deposed_owner_promotes_no_candidate() -> None:
    """Refuse a promotion after the deposed owner's grace, as the next owner begins its own."""
    group = Elections(grace_ms=2_000)
    group.campaign("xy")
    group.gone("x")
    group.run(1.0)
    group.govern("b", unnoticed_by="a")
    group.run(1.5)
    assert any(name == "a" and operation.verb == "PATCH" for name, operation in group.asked)
    assert group.holder == ""
    group.run(1.0)
    assert group.holder == "y"


def test_a_promotion_of_unknown_fate_is_retried_and_promotes_one() -> None:
    group = Elections(grace_ms=1_000)
    group.campaign("xyz")
    group.gone("x")
    lost: list[Operation] = []

    def answers(node: str, operation: Operation) -> Answer | None:
        if operation.verb != "PATCH" or lost:
            return None
        lost.append(operation)
        group.apply(operation)
        return Answer(504, "undecided", "its answer is lost", unknown=True)

    group.answers = answers
    group.run(2.0)
    assert lost
    assert (group.holder, len(group.turns.queue)) == ("y", 1)


def test_a_campaign_during_a_promotion_does_not_stop_it() -> None:
    group = Elections(grace_ms=1_000)
    group.campaign("xy")
    group.gone("x")
    came: list[Operation] = []

    def answers(node: str, operation: Operation) -> Answer | None:
        if operation.verb == "PATCH" and not came:
            came.append(operation)
            body = {"kind": "CampaignRequest", "candidate": "z", "lease": lease("z")}
            group.apply(Operation(verb="PATCH", link=LINK, body=json.dump(body), media="handler"))
        return None

    group.answers = answers
    group.run(1.2)
    assert came
    assert (group.holder, [each.name for each in group.turns.queue]) == ("y", ["z"])


# With the leases of the same owners


def test_the_end_of_a_holders_lease_gives_the_turn_to_the_next() -> None:
    group = Elections()
    for name, ttl_ms in (("x", 1_000), ("y", 60_000)):
        group.put(lease(name), LeaseState(ttl_ms=ttl_ms).state())
        group.patch(lease(name), {"kind": "AttachRequest", "link": LINK})
    group.campaign("xy")
    request = group.turn("y", at="b")
    group.run(0.9)
    assert (group.holder, group.replies) == ("x", {})
    group.run(0.3)
    assert shown(group.reply(request)) == (200, "y")


def test_a_campaign_after_the_end_of_its_lease_is_found_by_a_later_pass() -> None:
    group = Elections()
    group.put(lease("x"), LeaseState(ttl_ms=1_000).state())
    group.patch(lease("x"), {"kind": "AttachRequest", "link": LINK})
    group.run(1.5)
    group.campaign("x")
    assert group.holder == "x"
    group.run(3.0)
    assert group.holder == ""
