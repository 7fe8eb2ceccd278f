"""What a node has before it knows its group: a disk, links, and somebody to ask."""

from dataclasses import dataclass

from docstore.config import Config
from docstore.http.access import Access
from docstore.maintenance.webhooks.calling import Caller
from docstore.node.members.founding import Founding
from docstore.node.members.joining import JoinRequests
from docstore.node.members.lookup import Lookup
from docstore.node.members.membership import GossipMembership
from docstore.runtime.links.peers import PeerLinks
from docstore.runtime.links.rpc import Rpc
from docstore.runtime.tls.credentials import Credentials
from docstore.services.registry import Registry
from docstore.storage.partitions import StreamsRecovered, StreamStore
from docstore.storage.store import Store


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a node that do not need the rest of the group. `node.py` makes and ends them."""

    config: Config
    node_id: str
    store_id: str
    store: Store
    streams: StreamStore
    streams_recovered: StreamsRecovered
    credentials: Credentials | None
    """What is shown and believed, with TLS."""
    registry: Registry
    founding: Founding
    joining: JoinRequests
    lookup: Lookup
    links: PeerLinks
    rpc: Rpc
    membership: GossipMembership
    access: Access | None
    """Who may ask for what; None: everybody for everything."""
    caller: Caller | None
    """What calls the receivers of subscriptions; None: nobody does."""
