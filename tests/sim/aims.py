"""Profiles that aim at one rule each: the faults that expose its absence.

`ablations.py` names one for each rule that it takes away. The shapes that seeds choose are in
`profiles.py`.
"""

from dataclasses import replace

from tests.sim.run import Profile

BASIC = Profile()
"""All kinds of faults, and three nodes."""

CUTS = Profile(slots=1, links=2, kinds=("cut", "oneway", "isolate", "isolate", "pause"))
"""Owners that continue without a majority: quorums, reads, rejections."""

CRASHES = Profile(slots=1, links=2, kinds=("crash", "crash", "storm", "flap"))
"""Processes that restart: what must be on disk, and not only in memory."""

TAKEOVERS = Profile(slots=1, links=2, kinds=("crash", "isolate", "pause", "flap", "oneway"))
"""Owners that are replaced, and return: promises, logs that differ, retries."""

SLOW_DISKS = Profile(slots=1, links=2, kinds=("slow", "slow", "crash"), past=True)
"""Reads of older versions while an owner's own disk is behind."""

CHANGES = Profile(
    size=5, factor=3, slots=2, links=2, changes=True,
    kinds=("torn", "torn", "change", "isolate", "oneway", "crash", "pause"),
)  # fmt: skip
"""Members that join, leave and replace each other."""

VOTES = Profile(
    size=5, slots=1, links=2, kinds=("change", "change", "split", "isolate", "storm"), changes=True
)
"""Elections of the leader that changes the group."""

LOADS = Profile(
    slots=4, links=4, loaders=3, page_rows=2, kinds=("crash", "isolate", "pause", "flap", "oneway")
)
"""Messages that carry rows of several slots."""

BUNDLES = replace(LOADS, slots=1, links=8, page_rows=256)
"""Operations that arrive together for one slot, at owners that must look up their documents."""

PARTS = Profile(
    slots=1, links=8, batchers=4, clients=2, page_rows=4, faults_s=5.0,
    kinds=("crash", "isolate", "pause", "flap", "oneway"),
)  # fmt: skip
"""Atomic batches."""

REPEATS = replace(PARTS, keyed=True)
"""Atomic batches under an Idempotency-Key, repeated."""

INSTANTS = replace(PARTS, looking_back=3, kinds=("behind", "behind", "crash", "isolate", "slow"))
"""Clients that read the past at one instant, while clocks are behind."""

TRIMS = Profile(
    slots=1, links=2, retention_s=1.0, kinds=("crash", "isolate", "isolate", "pause", "slow")
)
"""Old versions that are removed after a second."""

COUNTED = replace(TRIMS, versions=3)
"""The same, and the factory counts versions."""

LEASES = Profile(
    slots=1, links=1, leases=True, kinds=("isolate", "isolate", "pause", "oneway", "cut", "crash")
)
"""Owners that read by lease."""

CLOCKS = Profile(slots=1, links=2, kinds=("clock", "clock", "slow"), beside=("crash", "isolate"))
"""Wall clocks that are an hour wrong, and a second fault at a time."""
