"""The parts that a node has before it knows its group."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from docstore.config import Config
from docstore.http.access import Access
from docstore.maintenance.webhooks.calling import Caller
from docstore.node.members.founding import Founding
from docstore.node.members.joining import JoinRequests
from docstore.node.members.lookup import Lookup
from docstore.node.members.membership import GossipMembership
from docstore.runtime.links.peers import PeerLinks
from docstore.runtime.links.rpc import Rpc
from docstore.services.registry import Registry
from docstore.storage.partitions import StreamsRecovered, StreamStore
from docstore.storage.store import Store

if TYPE_CHECKING:
    from docstore.runtime.tls.credentials import Credentials


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that need no other node. `node.py` makes and ends them."""

    config: Config
    node_id: str
    store_id: str
    store: Store
    streams: StreamStore
    streams_recovered: StreamsRecovered
    credentials: "Credentials | None"
    """The certificates that this node shows and accepts; None: no TLS."""
    registry: Registry
    founding: Founding
    joining: JoinRequests
    lookup: Lookup
    links: PeerLinks
    rpc: Rpc
    membership: GossipMembership
    access: Access | None
    """The permissions of users; None: every client may do everything."""
    caller: Caller | None
    """Calls the receivers of subscriptions; None: this node calls none."""
