"""Roles in a few machines and members, on clocks with different rates: the leaders at each moment.

`World` fails by itself when two believe at one instant that they lead an exclusive partition.
"""

import pytest

from docstore.ownership.by_induction import Acquired, Fenced, Revoked
from docstore.sessions.group_messages import Pulse, Reply, Request
from docstore.sessions.member_events import Ended
from tests.docstore.sessions.group import TICK_S
from tests.docstore.sessions.members import World

SESSION_S = 3.0


def group_of_two(partitions: int = 4, **more: object) -> World:
    """Return a world in which x and y lead their partitions."""
    world = World(partitions, **more)  # type: ignore[arg-type]
    world.start("x")
    world.run(1.0)
    world.start("y")
    world.run(2.0)
    assert world.group.phase == "Stable"
    return world


def test_n01_one_process_leads_all_partitions_within_a_heartbeat() -> None:
    world = World(4)
    world.start("x")
    world.run(0.6)
    assert world.led("x") == {0, 1, 2, 3}


def test_n02_three_processes_share_six_partitions() -> None:
    world = World(6)
    for name in "xyz":
        world.start(name)
        world.run(1.0)
    world.run(2.0)
    assert [len(world.led(name)) for name in "xyz"] == [2, 2, 2]
    assert world.group.phase == "Stable"


@pytest.mark.parametrize("coordinator", ["+", "-"])
@pytest.mark.parametrize("member", ["+", "-"])
def test_n05_a_cut_off_leader_stops_before_another_leads(coordinator: str, member: str) -> None:
    world = World(2, rates=f"{coordinator}00", window_ms=2_800)
    world.start("x", rate=member)
    world.run(1.0)
    assert world.led("x") == {0, 1}
    world.processes["x"].is_deaf = True
    world.start("y")
    world.run(4.0)
    assert world.led("y") == {0, 1}
    assert world.led("x") == set()
    assert [type(each) for each in world.processes["x"].reports[-2:]] == [Fenced, Fenced]


def test_n06_a_paused_member_does_not_lead_even_with_waiting_replies() -> None:
    world = group_of_two(2)
    old = world.led("x")
    # The reply to an earlier pulse is in flight at the pause, and read after it.
    world.delays = lambda name, asked, reply: 0.3 if name == "x" else 0.0
    world.run(1.0)
    world.pause("x")
    world.run(3 * SESSION_S)
    assert world.led("y") == {0, 1}
    assert world.processes["x"].inbox, "replies wait in its buffers"
    assert world.led("x") == set()
    world.resume("x")  # Each reply that it reads is checked for two leaders.
    assert world.led("x") == set()
    world.run(3.0)
    assert len(world.led("x")) == len(old), "x does not take part again"


def test_n07_after_a_crash_the_successor_leads_within_a_session_and_tokens_grew() -> None:
    world = group_of_two(2)
    [partition] = world.led("x")
    before = world.group.tenure[str(partition)].token
    world.crash("x")
    world.run(SESSION_S + 0.5)
    assert world.led("y") == {0, 1}
    assert world.group.tenure[str(partition)].token > before


def test_a_leaving_member_is_succeeded_at_once() -> None:
    world = group_of_two(2)
    world.leave("x")
    assert world.led("x") == set()
    world.run(0.3)
    assert world.led("y") == {0, 1}
    assert world.processes["x"].reports[-1] == Ended("left")


def test_n09_the_successor_leads_only_after_the_revocation_has_finished() -> None:
    world = World(2)
    world.start("x")
    world.run(1.0)
    world.processes["x"].revoke_s = 2.0
    world.start("y")
    world.run(1.8)
    [revoked] = [each for each in world.processes["x"].reports if isinstance(each, Revoked)]
    assert not world.leads("x", revoked.partition), "from the start of the callback"
    assert revoked.protected(world.clock("x"))
    assert world.led("y") == set()
    world.run(0.7)
    assert world.led("y") == {revoked.partition}
    assert not revoked.protected(world.clock("x"))


def test_n09_a_member_that_takes_too_long_is_fenced_and_the_others_continue() -> None:
    world = World(4)
    world.start("x")
    world.run(1.0)
    world.processes["x"].revoke_s = 60.0
    world.start("y")
    world.run(3.5)
    reports = world.processes["x"].reports
    assert [each.why for each in reports if isinstance(each, Fenced)] == ["fenced", "fenced"]
    world.run(2.0)
    assert world.group.phase == "Stable"
    assert len(world.led("x")) == len(world.led("y")) == 2
    assert world.processes["x"].member.id == "x1"


def test_n10_a_join_moves_at_most_its_share_and_the_others_never_report_no() -> None:
    world = World(7)
    for name in "xy":
        world.start(name)
        world.run(2.0)
    before = {each: world.believers(str(each))[0] for each in range(7)}
    for gaps in world.gaps.values():
        gaps.clear()
    world.start("z")
    world.run(3.0)
    moved = [each for each in range(7) if world.believers(str(each)) != [before[each]]]
    assert 1 <= len(moved) <= 3
    assert [each for each in range(7) if each not in moved and world.gaps[str(each)]] == []


@pytest.mark.parametrize("dies", ["pricing.a", "pricing.b"])
def test_n13_with_two_groups_every_role_is_always_led_though_one_member_dies(dies: str) -> None:
    worlds = {name: group_of_two(6, name=name) for name in ("pricing.a", "pricing.b")}
    one, other = worlds.values()
    assert one.group.target != other.group.target, "assigned independently"
    worlds[dies].crash("x")
    gaps = []
    for _ in range(round(2 * SESSION_S / TICK_S)):
        for world in worlds.values():
            world.run(TICK_S)
        led = [one.believers(str(each)) or other.believers(str(each)) for each in range(6)]
        gaps += [each for each in led if not each]
    assert gaps == []
    assert worlds[dies].led("y") == set(range(6))


def test_n15_without_a_pulse_a_lead_ends_with_its_window_before_any_event() -> None:
    world = group_of_two(2)
    [partition] = world.led("x")
    world.pause("x")
    world.run(1.6)
    assert not world.leads("x", partition)


def test_g8_leaders_do_not_notice_a_change_of_coordinator() -> None:
    world = group_of_two()
    before = world.group
    for gaps in world.gaps.values():
        gaps.clear()
    for name in "bcab":
        world.nodes.govern(name)
        world.run(0.8)
    assert not any(world.gaps.values())
    assert world.group == before


def test_a_coordinator_that_is_killed_with_a_member_costs_one_more_session() -> None:
    world = group_of_two(2)
    world.run(SESSION_S)
    world.crash("x")
    world.run(2.0)
    world.nodes.govern("b")
    world.run(2.5)
    assert len(world.led("y")) == 1, "a new coordinator knows of no silence before it"
    world.run(1.0)
    assert world.led("y") == {0, 1}


def test_m4_a_member_removed_while_cut_off_rejoins_with_a_new_id() -> None:
    world = group_of_two(2)
    world.processes["x"].is_deaf = True
    world.run(4.0)
    world.processes["x"].is_deaf = False
    world.run(3.0)
    assert world.processes["x"].member.id == "x1"
    assert len(world.led("x")) == 1
    assert list(world.group.members) == ["y0", "x1"]


def test_m5_a_member_silent_for_a_while_leads_again_with_the_same_token() -> None:
    world = group_of_two(2)
    [partition] = world.led("x")
    reports = world.processes["x"].reports
    reports.clear()
    world.processes["x"].is_deaf = True
    world.run(1.8)
    world.processes["x"].is_deaf = False
    world.run(1.0)
    token = world.group.tenure[str(partition)].token
    assert reports == [Fenced(partition, token, "silent"), Acquired(partition, token)]


def test_a_lost_answer_to_a_leave_leaves_no_believer() -> None:
    world = group_of_two(2)
    world.delays = lambda name, asked, reply: 60.0 if name == "x" else 0.0
    world.leave("x")
    world.run(1.0)
    assert world.led("x") == set()
    assert world.led("y") == {0, 1}


@pytest.mark.parametrize("name", ["x", "y"])
def test_replies_that_are_late_and_out_of_order_make_no_second_leader(name: str) -> None:
    """Delay every third reply by a second, so that grants, releases and confirmations cross."""
    world = World(6)
    counts = {"x": 0, "y": 0, "z": 0}

    def delay(to: str, asked: Request, reply: Reply | None) -> float:
        counts[to] += 1
        return 1.0 if to == name and counts[to] % 3 == 0 and isinstance(asked, Pulse) else 0.0

    world.delays = delay
    for round_ in range(3):
        for each in "xyz":
            if each not in world.processes:
                world.start(each)
                world.run(1.3)
        world.leave("z", drain=round_ == 1)
        world.run(1.7)
        world.crash("z")
        world.run(4.0)
    assert len(world.led("x") | world.led("y")) == 6


# Two may lead


def test_i19_a_move_in_a_non_exclusive_group_leaves_no_gap() -> None:
    world = World(6, mode="nonExclusive")
    world.start("x")
    world.run(1.0)
    for gaps in world.gaps.values():
        gaps.clear()
    for name in "yz":
        world.start(name)
        world.run(2.0)
    world.leave("y", drain=True)
    world.run(2.0)
    assert not any(world.gaps.values())
    assert [len(world.led(name)) for name in "xyz"] == [3, 0, 3]


def test_i19_a_cut_off_member_believes_until_its_successor_leads() -> None:
    world = World(2, mode="nonExclusive")
    world.start("x")
    world.run(1.0)
    world.start("y")
    world.run(1.0)
    for gaps in world.gaps.values():
        gaps.clear()
    world.processes["x"].is_deaf = True
    world.run(2.0)
    world.nodes.govern("b")  # The new coordinator grants whole sessions again.
    world.run(6.0)
    assert not any(world.gaps.values())
    assert world.led("y") == {0, 1}
