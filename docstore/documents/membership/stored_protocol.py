"""The stored protocol: the group stores only additions that all members read (rule M7).

Rows, records and the configuration lie on the disks of nodes that may still run the version before,
and these nodes send them on. So the configuration names the protocol up to which the group stores
additions. Once every member is linked in a greater protocol, the leader of the register raises that
number. From then on no node that speaks less is linked (`node/members/founding.py`), and none
starts on such a disk. A node that returns with an earlier software version while the group decides
does not get the new configuration.

Source: the cluster version of etcd, and of CockroachDB.
"""

from dataclasses import replace

from docstore.documents.core import Core
from docstore.ownership.configuration import Configuration
from docstore.wire.link_messages import FIRST_PROTOCOL, PROTOCOL


def raised(core: Core) -> Configuration | None:
    """Return a configuration that raises the stored protocol as far as all members speak it."""
    links = core.peers.links
    spoken = min((links.get(member, 0) for member in core.peers), default=PROTOCOL)
    if spoken <= core.configuration.stored_protocol:
        return None
    core.counters["forms_allowed"] += 1
    return replace(core.configuration, id=core.configuration.id + 1, stored_protocol=spoken)


def may_tell(core: Core, peer: str, configuration: Configuration) -> bool:
    return configuration.stored_protocol <= core.peers.links.get(peer, FIRST_PROTOCOL)
