"""In which forms things are stored: only in those that all members read (rule M7).

A row, a record or the configuration itself lies on the disks of nodes that may still run the
version of before, and that hand it on. So what a protocol adds to them waits for a word of the
register: once every member is linked in that protocol or a later one, the leader has the
configuration say so, and `Configuration.stores` says it to everybody. From then on no node of an
earlier protocol is linked (`node/members/founding.py`), and none starts on such a disk; one that
came back in an earlier version while that was being decided is not told.

What only some groups ever store waits until somebody asks for it, too: then a group that does not
need it keeps its way back to the version before.

Source: the cluster version of etcd, and of CockroachDB.
"""

from dataclasses import replace

from docstore.documents.core import Core
from docstore.documents.membership.change import ChangeRefused
from docstore.ownership.configuration import EXTENDED, FIRST_PROTOCOL, Configuration, Stage

FORMS: tuple[int, ...] = ()
"""The protocols that have added what every group stores. None has so far."""


def with_forms_allowed(core: Core) -> Configuration | None:
    """Return a configuration that allows the newest form that all members read, if one is due."""
    read = [core.peers.links.get(member, 0) for member in core.peers]
    latest = core.configuration.stored_protocol
    due = [form for form in FORMS if form > latest and _is_read_by_all(form, read)]
    if not due:
        return None
    core.counters["forms_allowed"] += 1
    following = core.configuration.id + 1
    return replace(core.configuration, id=following, stored_protocol=max(due))


def with_extended_form(core: Core) -> Configuration:
    """Return the configuration that allows it, or the one in use. Raises ChangeRefused."""
    now = core.configuration
    if now.stores_extended_form:
        return now
    if now.stage is not Stage.STABLE:
        raise ChangeRefused(409, "change-in-flight", f"configuration {now.id} is {now.stage}")
    links = core.peers.links
    behind = sorted(member for member in core.peers if links.get(member, 0) < EXTENDED)
    if behind:
        detail = f"not all members are known to read what protocol {EXTENDED} stores: {behind}"
        raise ChangeRefused(409, "earlier-version", detail)
    core.counters["forms_allowed"] += 1
    return replace(now, id=now.id + 1, stored_protocol=EXTENDED)


def may_tell(core: Core, peer: str, configuration: Configuration) -> bool:
    """Say whether a node that is linked can read a configuration."""
    return configuration.stored_protocol <= core.peers.links.get(peer, FIRST_PROTOCOL)


def _is_read_by_all(form: int, read: list[int]) -> bool:
    """read: the protocol of the link to each other member, 0 for one without a link."""
    return all(form <= protocol for protocol in read)
