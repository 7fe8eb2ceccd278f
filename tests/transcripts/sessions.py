"""Behaviours of leases, locks and groups."""

from typing import Any

from docstore.runtime.trace.lines import NOTHING, TraceFilter
from tests.transcripts.stage import Stage, scene

LEASES, LOCK, ROLES = "/core/leases", "/core/locks/door", "/core/roles/pricing"
MACHINES = ("sessions",)
BOTH = ("sessions", "documents")


async def _lease(stage: Stage, name: str, ttl_ms: int = 60_000) -> None:
    await stage.quietly("n1", "POST", LEASES, {"documentSelfLink": name, "ttlMs": ttl_ms})


async def _acquire(stage: Stage, name: str) -> None:
    await stage.ask("n1", "PATCH", LOCK, _wanted_by(name), machines=BOTH,
                    members=("won", "token", "position"))  # fmt: skip


def _wanted_by(name: str) -> dict[str, str]:
    return {"kind": "AcquireRequest", "candidate": name, "lease": f"door~{name}"}


@scene("lease-kept-alive")
async def lease_kept_alive(stage: Stage) -> None:
    """A client makes a lease and keeps it alive.

    The lease is a document. A keep-alive writes nothing: its owner confirms with a majority that it
    is still the owner, and moves the deadline in memory.
    """
    body = {"documentSelfLink": "mine", "ttlMs": 5000}
    await stage.ask("n1", "POST", LEASES, body, about=NOTHING, machines=MACHINES)
    await stage.ask(
        "n2", "POST", f"{LEASES}/keep-alive", {"leases": ["mine"]}, about=NOTHING,
        machines=MACHINES,
    )  # fmt: skip


@scene("lease-expires")
async def lease_expires(stage: Stage) -> None:
    """A client goes silent: its lease expires, and what was attached to it is deleted."""
    await _lease(stage, "mine", 2000)
    await stage.ask("n1", "PUT", "/notes/here", {"by": "mine"}, Docstore_Lease="mine",
                    about=NOTHING, machines=MACHINES)  # fmt: skip
    await stage.sleep(8.0)
    stage.show(NOTHING, MACHINES)
    await stage.ask("n1", "GET", "/notes/here")


@scene("lock-handed-over")
async def lock_handed_over(stage: Stage) -> None:
    """Two clients want a lock. The second one waits in the queue, and gets it by the release.

    The release and the hand-over are one version of the lock's document, and its number is the
    fencing token of the new holder.
    """
    for name in ("first", "second"):
        await _lease(stage, f"door~{name}")
        await _acquire(stage, name)
    body = {"kind": "ReleaseRequest", "candidate": "first", "token": 1}
    await stage.ask("n1", "PATCH", LOCK, body, machines=BOTH)
    await stage.ask("n1", "GET", LOCK, members=("holder", "queue"))


@scene("lock-of-a-silent-holder")
async def lock_of_a_silent_holder(stage: Stage) -> None:
    """The holder of a lock goes silent: its lease expires, and the next in the queue wins."""
    await _lease(stage, "door~first", 2000)
    await _lease(stage, "door~second")
    for name in ("first", "second"):
        await stage.quietly("n1", "PATCH", LOCK, _wanted_by(name))
    stage.say("first holds the lock, and nothing is heard of it any more")
    await stage.sleep(12.0)
    stage.show(NOTHING, MACHINES)
    await stage.ask("n1", "GET", LOCK, members=("holder", "queue"))


@scene("roles-by-induction")
async def roles_by_induction(stage: Stage) -> None:
    """Two processes join an exclusive group of roles; no member is elected.

    The coordinator, which is the owner of the group's document, assigns the partitions. It grants
    the second member its share only after a heartbeat in which the first one does not own it any
    more. The number of each assigned partition is the token of its fence.
    """
    roles = {"name": "pricing", "partitions": 4, "mode": "exclusive", "sessionMs": 60_000}
    await stage.quietly("n1", "POST", "/core/roles", roles)
    first, second = (f"00000000-0000-4000-8000-00000000000{number}" for number in (1, 2))
    await _join(stage, first)
    await _heartbeat(stage, first, number=1, generation=1, listing=1, owned=[])
    await _join(stage, second)
    await _heartbeat(stage, first, number=2, generation=1, listing=2, owned=["0", "1", "2", "3"])
    await _heartbeat(stage, second, number=1, generation=2, listing=1, owned=[])
    await _heartbeat(stage, first, number=3, generation=2, listing=3, owned=["0", "3"])
    await _heartbeat(stage, second, number=2, generation=2, listing=1, owned=[])


async def _join(stage: Stage, member: str) -> None:
    await stage.ask(
        "n1", "POST", f"{ROLES}/members", {"member": member}, about=TraceFilter(link=ROLES),
        machines=MACHINES, members=("kind", "generation"),
    )  # fmt: skip


async def _heartbeat(stage: Stage, member: str, **said: Any) -> None:
    body = {"kind": "HeartbeatRequest", **said}
    await stage.ask(
        "n1", "PATCH", f"{ROLES}/members/{member}", body, about=TraceFilter(link=ROLES),
        machines=MACHINES, members=("kind", "generation", "assigned", "revoked"),
    )  # fmt: skip
