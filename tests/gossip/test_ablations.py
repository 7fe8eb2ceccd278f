"""Each idea of the protocol taken away, from outside: a check that holds must then fail.

And each published defect of other implementations, put back in. That proves that the checks
look at something; the product knows nothing of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from gossip import Config, Member, State
from gossip.messages import Dead, Ping, Suspect, Sync
from gossip.protocol import claim_rules as claim_rules_module
from gossip.protocol import membership as membership_module
from gossip.protocol.anti_entropy import AntiEntropy
from gossip.protocol.awareness import Awareness
from gossip.protocol.broadcast import Broadcasts, transmit_limit
from gossip.protocol.claim_rules import ClaimRules
from gossip.protocol.effects import Ask, Send, SetTimer
from gossip.protocol.events import (
    AckDue,
    Asked,
    GossipDue,
    ProbeDue,
    Received,
    ReconnectDue,
    TimerFired,
)
from gossip.protocol.membership import Membership
from gossip.protocol.order import ProbeOrder
from gossip.protocol.swim import Swim
from tests.gossip.rig import ME, address_of, alive, hear, machine, peer, state_of
from tests.gossip.world import World

LAN = Config.lan()
Check = Callable[[Config], bool]


@dataclass(frozen=True)
class Ablation:
    """An idea to take away, by settings or by replacing a function, and the check that needs it."""

    holds: Check
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    changes: tuple[tuple[Any, str, Any], ...] = ()


def world_of(seed: int, config: Config, count: int) -> World:
    world = World(seed, config, codec=False)
    world.start_acquainted(count)
    world.run(3)
    return world


# Checks: each is true of the whole protocol


def two_that_cannot_hear_each_other_do_not_suspect(config: Config) -> bool:
    world = world_of(1, config, 12)
    world.network.cuts |= {("n3", "n4"), ("n4", "n3")}
    world.run(60)
    return not world.ever(State.SUSPECT)


def a_pause_of_five_seconds_is_survived(config: Config) -> bool:
    for seed in (1, 2, 3):
        world = world_of(seed, config, 20)
        world.pause("n9")
        world.run(5)
        try:
            world.resume("n9")
            world.run(30)
        except AssertionError as error:
            assert "was not refuted" in str(error)  # noqa: PT017 - the oracle's own words.
            return False
        if world.ever(State.DEAD):
            return False
    return True


def who_hears_nothing_condemns_few(config: Config) -> bool:
    world = world_of(1, config, 50)
    world.network.deaf.add("n9")
    world.run(60)
    return len([1 for _, member, _ in world.changes_to(State.DEAD) if member == "n9"]) <= 3


def members_are_probed_in_turn(config: Config) -> bool:
    world = world_of(1, config, 8)
    try:
        world.run(200)
    except AssertionError as error:
        assert "waited too long" in str(error)  # noqa: PT017 - the oracle's own words.
        return False
    return world.oracles.fired["10 probe fairness"] > 100


def who_is_called_dead_by_mistake_hears_of_it_at_once(config: Config) -> bool:
    took_s = []
    for seed in range(1, 9):
        world = world_of(seed, config, 20)
        accused = world.nodes["n5"]
        dead = Dead("n5", accused.swim.membership.me.incarnation, "n1")
        world.feed(world.nodes["n1"], Received(world.nodes["n2"].address, (dead,)))
        before = accused.swim.membership.me.incarnation
        took_s.append(
            world.run_until(
                lambda accused=accused, before=before: (
                    accused.swim.membership.me.incarnation > before
                ),
                within_s=20,
            )
        )
    return sum(took_s) / len(took_s) < 0.36


def a_long_partition_heals(config: Config) -> bool:
    world = world_of(1, config, 12)
    names = list(world.nodes)
    world.network.partition(names[:6], names[6:])
    world.run(90)
    world.network.heal()
    world.run(60)
    return world.all_agree()


def a_true_death_is_no_reason_to_feel_ill(config: Config) -> bool:
    world = world_of(1, config, 10)
    world.unplug("n9")
    worst = 0
    for _ in range(40):
        world.run(0.1)
        scores = [node.swim.membership.awareness.score for node in world.running]
        worst = max(worst, *scores)
    return worst == 0


def an_accusation_of_a_newer_life_begins_anew(config: Config) -> bool:
    swim = machine("a", "b", "c", config=config)
    hear(swim, "b", Suspect("a", 10, "b"), now=1.0)
    hear(swim, "c", Suspect("a", 11, "c"), now=3.0)
    suspicion = swim.membership.suspicions["a"]
    return (suspicion.incarnation, suspicion.started_at_s, suspicion.confirmations) == (11, 3.0, 0)


def tables_confirm_nothing(config: Config) -> bool:
    swim = machine(*"abcdef", config=config)
    hear(swim, "b", Suspect("a", 10, "b"), now=1.0)
    for number, source in enumerate("cdef"):
        table = Sync(source, (peer("a", state=State.SUSPECT),))
        swim.step(Asked(number, table), 1.5)
    return swim.membership.suspicions["a"].confirmations == 0


def one_refutation_replaces_another(config: Config) -> bool:
    swim = machine("a", "b", config=config)
    for incarnation in (100, 101, 102):
        hear(swim, "b", Suspect("me", incarnation, "b"))
    return len(swim.membership.queue) == 1


def ill_health_stretches_timeout_and_interval(config: Config) -> bool:
    swim = machine("a", "b", config=config)
    swim.membership.awareness.worsen(2)
    effects = swim.step(TimerFired(ProbeDue()), 10.0)
    timers = {type(each.timer): each.at_s for each in effects if isinstance(each, SetTimer)}
    return (timers[AckDue], timers[ProbeDue]) == (11.5, 13.0)


def a_small_group_repeats_enough(config: Config) -> bool:
    return transmit_limit(5, config) >= 6


def a_goodbye_is_not_sent_to_members_that_left(config: Config) -> bool:
    swim = machine("a", "b", config=config)
    swim.membership.table.put(peer("b", state=State.LEFT))
    hear(swim, "a", alive("c", 20))
    sent = swim.step(TimerFired(GossipDue()), 1.2)
    return address_of("b") not in [each.to for each in sent if isinstance(each, Send)]


def an_old_rumour_about_us_is_answered(config: Config) -> bool:
    swim = machine("a", "b", config=config)
    hear(swim, "b", Suspect("me", ME.incarnation - 1, "b"))
    return "me" in swim.membership.queue


def a_forged_incarnation_is_refused(config: Config) -> bool:
    swim = machine("a", "b", config=config)
    hear(swim, "b", Dead("a", 10 + 2**40, "b"))
    return state_of(swim, "a") is State.ALIVE


def a_flood_of_newcomers_is_bounded(config: Config) -> bool:
    swim = machine("a", config=config)
    hear(swim, "a", *(alive(f"x{number}") for number in range(100)))
    return len(swim.membership.table) <= 34


def a_suspected_member_is_sent_the_suspicion(config: Config) -> bool:
    swim = machine("a", "b", config=config)
    hear(swim, "b", Suspect("a", 10, "b"))
    swim.membership.queue.clear()
    effects = hear(swim, "a", Ping(1, "me", "a"), now=3.0)
    messages = [message for each in effects if isinstance(each, Send) for message in each.messages]
    return any(isinstance(message, Suspect) for message in messages)


def a_difference_that_gossip_missed_is_found(config: Config) -> bool:
    # No comparison by the clock: only the sums on pings and acks can tell.
    world = world_of(1, dataclasses.replace(config, sync_interval_s=10_000.0), 80)
    node = world.nodes["n5"]
    member = node.swim.membership.table.get("n7")
    assert member is not None
    # As if n5 alone had missed that n7 refuted something.
    other = world.nodes["n7"].swim.membership
    other.refute(other.me.incarnation)
    other.queue.clear()
    for each in world.nodes.values():
        if each is not node and each.name != "n7":
            each.swim.membership.table.put(other.me)
    world.run(15)
    held = node.swim.membership.table.get("n7")
    return held is not None and held.incarnation == other.me.incarnation


# Replacements of the functions that are taken away


def _random_order(self: ProbeOrder) -> Member | None:
    table = self._membership.table
    picked = table.pick_live(1, self._membership.rng, self.is_target)
    return picked[0] if picked else None


def _confirm_from_any_reporter(
    self: Membership, member: Member, reporter: str, now: float, *, cause: str
) -> list[Any]:
    suspicion = self.suspicions.get(member.name)
    if suspicion is None:
        accused = dataclasses.replace(member, state=State.SUSPECT)
        return self.accept(accused, reporter, now, cause=cause)
    suspicion.confirm(reporter)
    return []


def _merges_confirm(self: ClaimRules, record: Member, source: str, now: float) -> list[Any]:
    if record.state is State.SUSPECT:
        return self._membership.suspect(record, source, now, cause="table")
    return self._membership.accept(record, source, now, cause="table")


def _beside_each_other(self: Membership, me: Member) -> None:
    self.table.put(me)
    rumour = membership_module.rumour_about(me, self.name)
    self.queue._buckets[0][f"{me.name} {me.incarnation}"] = rumour
    self.queue._sends[f"{me.name} {me.incarnation}"] = 0


def _interval_only(self: Awareness, duration_s: float) -> float:
    return duration_s * (self.score + 1) if duration_s == LAN.probe_interval_s else duration_s


def _every_other_member(self: Swim, member: Member) -> bool:
    return member.name != self.membership.name


def _only_rearm(self: AntiEntropy, now: float) -> list[Any]:
    return [SetTimer(ReconnectDue(), now + self._config.reconnect_interval_s)]


def _no_effects(*_: Any) -> list[Any]:
    return []


def _nothing(*_: Any) -> None:
    return None


def _no(*_: Any) -> bool:
    return False


def _gossip_to_all(self: Any, count: int, rng: Any, is_wanted: Any) -> list[Member]:
    return [member for member in self if is_wanted(member)][:count]


def _at_once(*_: Any) -> float:
    return 0.001


ABLATIONS = {
    "indirect probes": Ablation(
        two_that_cannot_hear_each_other_do_not_suspect, {"indirect_probes_count": 0}
    ),
    "suspicion": Ablation(
        a_pause_of_five_seconds_is_survived,
        changes=(("gossip.protocol.suspicion", "suspicion_min_s", _at_once),),
    ),
    "refutation": Ablation(
        a_pause_of_five_seconds_is_survived, changes=((ClaimRules, "_refute", _no),)
    ),
    "awareness": Ablation(who_hears_nothing_condemns_few, {"health_max": 0}),
    "round-robin order": Ablation(
        members_are_probed_in_turn, changes=((ProbeOrder, "next", _random_order),)
    ),
    "gossip to the dead": Ablation(
        who_is_called_dead_by_mistake_hears_of_it_at_once,
        changes=((Swim, "_tell_one_dead", _no_effects),),
    ),
    "partition heal": Ablation(
        a_long_partition_heals, changes=((AntiEntropy, "reconnect_due", _only_rearm),)
    ),
    "buddy rule": Ablation(a_suspected_member_is_sent_the_suspicion, {"buddy_rule": False}),
    "sums on pings": Ablation(
        a_difference_that_gossip_missed_is_found, changes=((AntiEntropy, "heard_sum", _no_effects),)
    ),
    # Defects of other implementations
    "nacks that come too late": Ablation(
        a_true_death_is_no_reason_to_feel_ill, {"nack_fraction": 0.999}
    ),
    "a newer accusation only confirms": Ablation(
        an_accusation_of_a_newer_life_begins_anew,
        changes=((Membership, "suspect", _confirm_from_any_reporter),),
    ),
    "merges confirm": Ablation(
        tables_confirm_nothing, changes=((ClaimRules, "_hear_record", _merges_confirm),)
    ),
    "refutations pile up": Ablation(
        one_refutation_replaces_another, changes=((Membership, "_speak", _beside_each_other),)
    ),
    "health stretches the interval only": Ablation(
        ill_health_stretches_timeout_and_interval,
        changes=((Awareness, "stretched_s", _interval_only),),
    ),
    "four sends in a small group": Ablation(a_small_group_repeats_enough, {"retransmit_min": 1}),
    "goodbyes to members that left": Ablation(
        a_goodbye_is_not_sent_to_members_that_left,
        changes=(
            (Swim, "_is_peer", _every_other_member),
            ("gossip.protocol.table.Table", "pick_live", _gossip_to_all),
        ),
    ),
    "old rumours about us are ignored": Ablation(
        an_old_rumour_about_us_is_answered, changes=((Membership, "repeat", _nothing),)
    ),
    "any incarnation is believed": Ablation(
        a_forged_incarnation_is_refused,
        changes=((claim_rules_module, "ACCUSATION_LEAD_MAX", 2**62),),
    ),
    "any number of newcomers": Ablation(a_flood_of_newcomers_is_bounded, {"newcomers_max": 10_000}),
}


@contextmanager
def without(ablation: Ablation) -> Iterator[Config]:
    with ExitStack() as stack:
        for where, name, instead in ablation.changes:
            if isinstance(where, str):
                stack.enter_context(patch(f"{where}.{name}", instead))
            else:
                stack.enter_context(patch.object(where, name, instead))
        yield dataclasses.replace(LAN, **ablation.settings)


@pytest.mark.parametrize("name", ABLATIONS)
def test_a_check_fails_without_its_idea(name: str) -> None:
    ablation = ABLATIONS[name]
    assert ablation.holds(LAN), "the check does not hold even with everything in place"
    with without(ablation) as config:
        assert not ablation.holds(config), "the check did not notice"


def test_queue_and_asks_have_the_names_that_ablations_patch() -> None:
    """The ablations reach into these; a rename must not turn them into nothing."""
    assert {"_buckets", "_sends"} <= vars(Broadcasts(LAN)).keys()
    assert Ask.__dataclass_fields__.keys() >= {"to", "message"}
