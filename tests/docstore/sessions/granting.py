"""Requests of tests of leases to a group of machines, and the expected replies."""

from docstore.model.document import LEASE
from docstore.services.leases import LEASES, LeaseState
from tests.docstore.sessions.group import Group

TTL_S = 2.0
LINK = f"{LEASES}/x"


def granted(group: Group, name: str = "x", **more: object) -> str:
    """Make a lease, as a client does."""
    lease = LeaseState(ttl_ms=int(TTL_S * 1000), **more)  # type: ignore[arg-type]
    group.put(f"{LEASES}/{name}", lease.state())
    return f"{LEASES}/{name}"


def attached(group: Group, lease: str, link: str, *, names: str = "") -> None:
    """Attach a document, and write it."""
    group.patch(lease, {"kind": "AttachRequest", "link": link})
    group.put(link, {LEASE: names or lease})


def kept_alive(group: Group, *names: str, at: str = "") -> tuple[object, ...]:
    """Return the leases that a keep-alive finds: alive, ended, missing, to ask again."""
    ids = names or ("x",)
    request = group.call(f"{LEASES}/{ids[0]}", "keep-alive", ids, at=at)
    reply = group.reply(request)
    assert reply.status == 200, reply
    alive, ended, missing, again = reply.result
    return sorted(alive), ended, missing, again


def phase(group: Group, link: str = LINK) -> str:
    state = group.state(link)
    return "none" if state is None else state["state"]


ALIVE = (["x"], [], [], [])
ENDED = ([], ["x"], [], [])
MISSING = ([], [], ["x"], [])
