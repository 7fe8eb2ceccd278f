"""Profiles of the runs, chosen by the seed so that all of them occur."""

from dataclasses import replace
from math import inf
from random import Random

from tests.sim.nemesis import ALL, BESIDE
from tests.sim.run import Profile


def profile_of(seed: int, nodes: str, beside: tuple[str, ...] = BESIDE) -> Profile:
    """Return the shape of a seed's run: 3 or 5 nodes, and what else varies.

    nodes: "3", "5", "both", or both under clients that send several operations at once as well:
    "batches", or "atomic" for all or none of them, or "keyed" for such under Idempotency-Keys.
    beside: kinds of the faults that strike beside others; () for one fault at a time.
    """
    if nodes == "batches":
        return replace(profile_of(seed, "both", beside), loaders=2, links=8)
    if nodes == "keyed":  # Keys are remembered for longer than old versions in other runs.
        return replace(profile_of(seed, "atomic", beside), keyed=True, retention_s=0.0)
    if nodes == "atomic":
        return _atomic(seed, profile_of(seed, "both", beside))
    rng = Random(seed * 7919 + 1)
    size = rng.choice((3, 5)) if nodes == "both" else int(nodes)
    # In one of eleven runs disks rot as well: slots abstain, and are copied anew.
    # In another, disks are slow now and then, and clients read older versions as well.
    # And in one more, slots are given back to members that return, and nodes are drained.
    # In a fourth, nodes join, leave and replace each other, and disks are lost; in a quarter of
    # these they are drained as well, and the leader of the register with them.
    # In one of thirteen runs, of all of these kinds, owners read by lease.
    # In a fifth, old versions are trimmed almost at once, while disks rot and fill up; they are
    # also trimmed in half of the fourth, where newcomers are filled with the rest. In half of the
    # fifth the factory counts versions.
    more = {
        10: ("rot", "rot"),
        5: ("slow", "slow"),
        8: ("drain", "crash"),
        6: ("change", "change", "wipe", "torn", "split"),
        9: ("rot", "crash", "full", "full"),
    }.get(seed % 11, ())
    if seed % 44 == 28:
        more = (*more, *["drain"] * 5)
    return Profile(
        kinds=(*ALL, *more),
        beside=beside,
        size=size,
        factor=rng.choice((None, 3)) if size == 5 else None,
        slots=rng.choice((1, 2, 4)),
        links=rng.choice((2, 3, 4)),
        page_rows=rng.choice((2, 3, 256)),
        past="slow" in more,
        changes="change" in more,
        leases=seed % 13 == 12,
        retention_s=4.0 if seed % 11 == 9 or seed % 22 == 17 else 0.0,
        versions=3 if seed % 22 == 20 else 0,
        hand_back_s=0.5 if seed % 11 == 8 else inf,
    )


def _atomic(seed: int, shape: Profile) -> Profile:
    """Return a shape with batches; in a third of the seeds clients read the past.

    Not where old versions are trimmed: a read cannot tell them from versions that never were.
    """
    looking_back = 2 if seed % 3 == 2 and not shape.retention_s else 0
    if looking_back and seed % 2:
        shape = replace(shape, kinds=(*shape.kinds, "behind", "behind"))
    page_rows = shape.page_rows + 2
    return replace(
        shape, batchers=3, clients=2, links=8, page_rows=page_rows, looking_back=looking_back
    )


ISOLATED = Profile(kinds=("isolate",), size=3, slots=16, links=16, clients=16)
"""Owners return with rows that no other node has, and take over before they hear more."""

FULL_DISKS = Profile(slots=1, links=2, kinds=("full", "full", "full", "crash"))
"""Disks are full, also those of a majority at the same time."""


def aimed_at(event: str, number: int) -> tuple[int, Profile]:
    """Return the n-th seed and its shape in which a rare event is no longer rare."""
    match event:
        case "own_cut":
            return number, ISOLATED
        case "successions":  # The leader of a change is drained in the middle of it.
            seed = 28 + 44 * number
            return seed, profile_of(seed, "both")
        case "refused_for_replicas_room":
            return number, FULL_DISKS
        case "took":  # Messages that say much are those of batches.
            return number, profile_of(number, "batches")
        case "atomic_batches" | "I13":
            return number, profile_of(number, "atomic")
    raise ValueError(event)
