"""Leases at their owner: rules S1 to S6, each with a test that fails without it."""

from collections.abc import Callable

import pytest

from docstore.model import json
from docstore.model.operation import Answer, Operation
from docstore.services.leases import LEASES, LeasePhase, LeaseState
from tests.docstore.sessions.granting import (
    ALIVE,
    ENDED,
    LINK,
    TTL_S,
    attached,
    granted,
    kept_alive,
    phase,
)
from tests.docstore.sessions.group import Group


@pytest.fixture
def group() -> Group:
    return Group()


def test_a_silent_lease_ends_once_its_time_is_over(group: Group) -> None:
    granted(group)
    group.run(TTL_S - 0.1)
    assert phase(group) == "alive"
    group.run(0.2)
    assert group.state(LINK) == group.state(LINK) | {"state": "ended", "why": "expired"}  # type: ignore[operator]


def test_a_lease_that_is_kept_alive_lives_without_a_write(group: Group) -> None:
    granted(group)
    decided = len(group.decided)
    for _ in range(10):
        group.run(TTL_S * 0.6)
        assert kept_alive(group, at="b") == ALIVE
    assert len(group.decided) == decided


def test_s1_a_new_owner_ends_leases_of_silent_clients(group: Group) -> None:
    granted(group)
    group.govern("b")
    group.crash("a")
    group.run(TTL_S + 0.5)
    assert phase(group) == "ended"


def test_s1_a_lease_not_on_the_disk_yet_is_found_by_a_later_listing(group: Group) -> None:
    granted(group)
    row = group.documents.pop(LINK)
    group.govern("b")
    group.crash("a")
    group.run(1.0)
    group.documents[LINK] = row
    group.run(group.config.survey_again_s + TTL_S)
    assert phase(group) == "ended"


def test_s1_a_listed_version_gives_way_to_the_decided_one(group: Group) -> None:
    granted(group)
    row = group.documents[LINK]
    undecided = row._replace(epoch=9, version=9)  # A proposal of a deposed owner.
    group.documents[LINK] = undecided
    group.govern("b")
    group.run(0.3)  # It is listed.
    group.documents[LINK] = row
    assert kept_alive(group) == ALIVE
    known = group.machines["b"].owned.at(LINK)
    assert known is not None
    assert known.tag == (row.epoch, row.version)


@pytest.mark.parametrize("successor", ["a", "b"])
def test_s2_a_new_term_gives_a_lease_its_whole_time(group: Group, successor: str) -> None:
    granted(group)
    for _ in range(3):
        group.run(TTL_S * 0.9)
        group.govern(successor)
    group.run(TTL_S * 0.9)
    assert phase(group) == "alive"
    group.run(0.6)
    assert phase(group) == "ended"


def test_s3_an_unknowingly_deposed_owner_confirms_nothing(group: Group) -> None:
    granted(group)
    group.govern("b", unnoticed_by="a")
    request = group.call(LINK, "keep-alive", ("x",), at="a", timeout_s=1.0)
    # The read succeeds at the successor, which does not confirm the table of `a`.
    assert group.reply(request).result == ({}, [], [], ["x"])


def test_s3_a_read_answered_in_an_earlier_term_confirms_nothing(group: Group) -> None:
    granted(group)
    late: list[Answer] = []

    def earlier(node: str, operation: Operation) -> Answer | None:
        if operation.verb == "GET" and not late:
            late.append(group.apply(operation))
            group.govern("b")
            group.govern("a")
            return late[0]
        return None

    group.answers = earlier
    request = group.call(LINK, "keep-alive", ("x",))
    assert group.reply(request).result == ({}, [], [], ["x"])


def test_s3_a_read_answered_in_a_later_term_does_not_confirm_the_old_table(
    group: Group,
) -> None:
    granted(group, "x")
    granted(group, "y")

    def later(node: str, operation: Operation) -> Answer | None:
        if operation.verb == "GET":
            group.answers = lambda node, operation: None
            group.govern("b")
            group.govern("a")
        return None

    group.answers = later
    request = group.call(LINK, "keep-alive", ("x", "y"))
    assert group.reply(request).result == ({}, [], [], ["x", "y"])


def test_s3_a_listed_version_ends_no_lease(group: Group) -> None:
    granted(group, "x")
    granted(group, "y")
    ended = json.dump(LeaseState(ttl_ms=2000, phase=LeasePhase.ENDED).state())
    undecided = group.documents[f"{LEASES}/y"]._replace(epoch=9, version=9, state=ended)
    group.govern("b")
    assert kept_alive(group, "x") == ALIVE
    group.machines["b"].owned.learn(undecided, is_sure=False)
    assert kept_alive(group, "x", "y") == (["x", "y"], [], [], [])


def test_s3_keep_alives_of_one_turn_share_one_confirmation(group: Group) -> None:
    names = sorted(f"lease-{number}" for number in range(200))  # In three slots, by their length.
    for name in names:
        granted(group, name)
    counters = group.machines["a"].core.counters
    counters.clear()
    group.asked.clear()
    assert kept_alive(group, *names) == (names, [], [], [])
    assert (counters["confirms"], counters["confirming_reads"]) == (1, 0)
    assert len(group.asked) == 3


def test_s3_a_lease_missing_in_the_table_is_read(group: Group) -> None:
    granted(group, "y")
    assert kept_alive(group, "x", "y") == (["y"], [], ["x"], [])
    granted(group, "x")
    group.govern("b")
    assert kept_alive(group, "x", "y", "z") == (["x", "y"], [], ["z"], [])


def test_s4_an_ending_names_the_term_and_a_successor_refuses_it(group: Group) -> None:
    granted(group)
    group.run(TTL_S - 0.1)
    group.govern("b", unnoticed_by="a")
    assert kept_alive(group, at="b") == ALIVE  # With the successor.
    group.run(TTL_S * 0.5)
    endings = [each for node, each in group.asked if node == "a" and each.verb == "PATCH"]
    assert endings, "the deposed owner never tried"
    assert phase(group) == "alive"


def test_s4_an_ending_of_an_earlier_term_is_not_retried_in_a_later_one(group: Group) -> None:
    granted(group)
    group.run(TTL_S - 0.1)
    group.govern("b", unnoticed_by="a")
    while not any(node == "a" and each.verb == "PATCH" for node, each in group.asked):
        group.run(0.05)
    group.govern("a")  # Before `a` has tried again to end it.
    assert kept_alive(group) == ALIVE
    group.run(TTL_S * 0.9)
    assert phase(group) == "alive"


def test_s4_a_lease_whose_ending_is_of_unknown_fate_is_not_alive(group: Group) -> None:
    granted(group)
    group.answers = lambda node, operation: (
        Answer(504, "undecided", unknown=True) if operation.verb == "PATCH" else None
    )
    group.run(TTL_S + 0.1)
    assert kept_alive(group) == ([], [], [], ["x"])
    group.answers = lambda node, operation: None
    group.run(0.2)
    assert phase(group) == "ended"
    assert kept_alive(group) == ENDED


def test_s4_an_executed_ending_without_an_answer_counts_once(group: Group) -> None:
    granted(group)

    def silent(node: str, operation: Operation) -> Answer | None:
        if operation.verb == "PATCH":
            group.answers = lambda node, operation: None
            group.apply(operation)
            return Answer(504, "undecided", unknown=True)
        return None

    group.answers = silent
    group.run(TTL_S + 0.5)
    assert [row.version for _, row in group.decided] == [0, 1]
    assert kept_alive(group) == ENDED


def test_s4_an_overtaken_ending_is_retried(group: Group) -> None:
    granted(group)

    def overtaken(node: str, operation: Operation) -> Answer | None:
        if operation.verb == "PATCH":
            group.answers = lambda node, operation: None
            group.patch(LINK, {"kind": "AttachRequest", "link": "/notes/1"})
        return None

    group.answers = overtaken
    group.run(TTL_S + 0.5)
    assert phase(group) == "ended"
    assert group.state(LINK)["attached"] == ["/notes/1"]  # type: ignore[index]


def test_s4_a_paused_node_reads_waiting_keep_alives_before_it_ends_leases(group: Group) -> None:
    granted(group)
    group.pause("a")
    group.run(TTL_S / 2)
    request = group.call(LINK, "keep-alive", ("x",), at="b")
    group.run(TTL_S)
    group.resume("a")
    assert phase(group) == "alive"
    assert group.reply(request).result == ({"x": 2000}, [], [], [])


def test_s4_endings_in_flight_are_bounded() -> None:
    group = Group(endings_max=10)
    for number in range(50):
        granted(group, f"lease-{number:02}")
    undecided = Answer(503, "no-quorum")
    group.answers = lambda node, operation: undecided if operation.verb == "PATCH" else None
    group.run(TTL_S + 2.0)
    tried = {each.link for _, each in group.asked if each.verb == "PATCH"}
    assert len(tried) == 10
    group.answers = lambda node, operation: None
    group.run(2.0)
    assert {phase(group, f"{LEASES}/lease-{number:02}") for number in range(50)} == {"ended"}


def test_s4_endings_begun_in_a_second_are_bounded() -> None:
    group = Group(endings_per_s=100)
    for number in range(400):
        granted(group, f"lease-{number:03}")
    group.run(TTL_S + 0.02)
    group.asked.clear()
    group.run(1.0)
    assert 90 <= len(group.asked) <= 256 + 110
    assert kept_alive(group, "lease-399")[0] == ["lease-399"]  # Late, and not judged yet.


def test_a_tick_costs_nothing_while_nothing_is_overdue(group: Group) -> None:
    for number in range(100):
        granted(group, f"lease-{number:03}")
    group.asked.clear()
    kept_alive(group, *(f"lease-{number:03}" for number in range(100)))
    deadlines = group.machines["a"].leasing.deadlines
    heaped = len(deadlines._heap)
    group.run(TTL_S / 2)
    assert heaped == len(deadlines._heap) == len(deadlines) == 100


def test_s6_an_expiring_lease_is_not_renewed(group: Group) -> None:
    granted(group)
    group.patch(LINK, {"kind": "ExpireRequest"})
    group.run(TTL_S / 2)
    assert kept_alive(group) == ENDED
    assert phase(group) == "expiring"
    group.run(TTL_S / 2 + 0.1)
    assert phase(group) == "ended"


def test_s6_a_holder_that_has_stopped_ends_its_lease_at_once(group: Group) -> None:
    granted(group)
    attached(group, LINK, "/notes/a")
    group.patch(LINK, {"kind": "EndRequest", "why": "revoked", "endedMicros": 1})
    group.run(0.2)
    assert kept_alive(group) == ENDED
    assert group.state("/notes/a") is None


def test_a_lease_has_a_remaining_time(group: Group) -> None:
    granted(group)
    group.run(0.5)
    assert group.reply(group.call(LINK, "remaining", at="c")).result == pytest.approx(1500, abs=60)
    assert group.reply(group.call(f"{LEASES}/none", "remaining")).result is None


def refuse_leases(node: str, operation: Operation) -> Answer | None:
    return Answer(503, "no-quorum") if operation.verb == "GET" else None


OWNERLESS: list[Callable[[Group], None]] = [
    lambda group: setattr(group, "answers", refuse_leases),
    lambda group: group.cut("a", "b"),
]


@pytest.mark.parametrize("trouble", OWNERLESS)
def test_a_keep_alive_that_cannot_be_confirmed_proves_nothing(
    group: Group, trouble: Callable[[Group], None]
) -> None:
    granted(group)
    trouble(group)
    request = group.call(LINK, "keep-alive", ("x",), at="b", timeout_s=0.5)
    group.run(1.0)
    reply = group.reply(request)
    assert (reply.code, reply.result) in [("no-owner", None), ("", ({}, [], [], ["x"]))]
